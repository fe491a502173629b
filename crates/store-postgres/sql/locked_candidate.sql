-- A message that a claim from the lanes ($3 topics, $4 shards, of namespace $2) could have claimed unless another
-- transaction has locked it. $1 the time.
-- Plan: as for the claim in work_1.sql.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select found.uid
  from unnest($3::text[], $4::integer[]) as lane (topic, shard)
 cross join lateral (
   select m.uid from {schema}.message m, clock
    where m.namespace = $2 and m.topic = lane.topic and m.shard = lane.shard and {claimable}
    order by m.number limit 1) found
 limit 1
