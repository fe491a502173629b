-- Reads messages by uid ($2) and by key ($3 hashes) with their leases, and whether the server is read-only, in which
-- case its data may be stale: at least one row reports it. $1 the time (null: the server's).
-- Plan: message_key once per key, message_pkey and lease_pkey once per message.
select current_setting('transaction_read_only')::boolean as read_only,
       coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, {columns}, {content}, {lease}
  from (select) as server
  left join {schema}.message m on m.uid = any(array(
    select unnest($2::uuid[])
    union all
    select k.uid from {schema}.message k where k.key_hash = any($3) and k.keyed))
  left join {schema}.lease l on l.uid = any(array[m.uid])
