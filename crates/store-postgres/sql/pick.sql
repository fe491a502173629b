-- Locks what a claim with a bound on bytes may choose from: of each lane ($3 topics, $4 shards, of namespace $2) the first $5. $1 the time.
-- Plan: as the claim in work_1.sql.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select found.uid, lane.place, found.bytes
  from unnest($3::text[], $4::integer[]) with ordinality as lane (topic, shard, place)
 cross join lateral (
   select m.uid, m.number, octet_length(m.payload)::bigint as bytes
     from {schema}.message m, clock
    where m.namespace = $2 and m.topic = lane.topic and m.shard = lane.shard and {claimable}
    order by m.number
    limit $5
      for no key update of m skip locked) found
 order by lane.place, found.number
