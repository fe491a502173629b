-- The deliveries that an earlier attempt of the same claim leased and still holds; and whether the server is
-- read-only: at least one row reports it. $1 the time (null: the server's), $2 namespace, $3 owner, $4 request.
-- Plan: lease_request, then message_pkey per lease.
select current_setting('transaction_read_only')::boolean as read_only, l.fence, l.until, m.superseded, {delivery}
  from (select) as server
  left join ({schema}.lease l join {schema}.message m on m.uid = any(array[l.uid]))
    on l.request = $4 and l.owner = $3 and l.namespace = $2
   and l.until > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
 order by l.fence
