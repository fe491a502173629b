-- Reads messages by uid ($2) and by key ($3 namespaces, $4 hashes), with their leases. $1 the time (null: the server's).
-- Plan: message_key once per key, message_pkey and lease_pkey once per message.
with wanted as (
  select unnest($2::uuid[]) as uid
  union
  select k.uid from unnest($3::smallint[], $4::uuid[]) as given (namespace, key_hash)
    join {schema}.message k on k.namespace = given.namespace and k.key_hash = given.key_hash and k.keyed
)
select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, {columns},
       l.owner, l.request, l.fence, l.until, l.extend_max, l.partition
  from wanted
  join {schema}.message m on m.uid = wanted.uid
  left join {schema}.lease l on l.uid = m.uid
