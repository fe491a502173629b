-- Reads the messages that were accepted under a key ($2 its hash), the newest $3 of them, with their leases and
-- without their payloads; and whether the server is read-only, in which case its data may be stale: at least one row
-- reports it. $1 the time (null: the server's).
-- Plan: message_key once; a range of message_former, from its newest end, at most $3 rows; message_pkey and
-- lease_pkey once per message.
select current_setting('transaction_read_only')::boolean as read_only,
       coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, {columns}, {content_without_payload}, {lease}
  from (select) as server
  left join {schema}.message m on m.uid = any(array(
    (select k.uid from {schema}.message k where k.key_hash = $2 and k.keyed)
    union all
    (select k.uid from {schema}.message k where k.key_hash = $2 and not k.keyed order by k.accepted_at desc, k.uid desc limit $3)))
  left join {schema}.lease l on l.uid = any(array[m.uid])
