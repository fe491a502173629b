-- Reads messages by uid ($2) and by key ($3 hashes), with their leases. $1 the time (null: the server's).
-- Plan: message_key once per key, message_pkey and lease_pkey once per message.
select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, {columns}, {content},
       {lease}
  from {schema}.message m
  left join {schema}.lease l on l.uid = any(array[m.uid])
 where m.uid = any(array(
   select unnest($2::uuid[])
   union all
   select k.uid from {schema}.message k where k.key_hash = any($3) and k.keyed))
