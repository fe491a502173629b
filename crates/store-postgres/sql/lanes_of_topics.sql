-- The lanes of the topics $3 in namespace $2 that have a ready message, or, unless $8, a claimable one; topics in
-- the given order, shards in descending order, of the first topic only those below $4; at most $5. Also whether
-- timers are due, whether one of the requests $7 of the owners $6 already has leases, and whether the server is
-- read-only. $1 the time.
-- Plan: as in lanes.sql.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), found as (
  select topic.name as topic, lane.shard
    from clock, unnest($3::text[]) with ordinality as topic (name, ordinal)
   cross join lateral (
     with recursive lane as (
       (select m.shard from {schema}.message m
         where m.namespace = $2 and m.topic = topic.name and m.shard < case when topic.ordinal = 1 then $4 else 65536 end and m.ready
         order by m.shard desc, m.number desc limit 1)
       union all
       select next.shard
         from lane
        cross join lateral (
          select m.shard from {schema}.message m
           where m.namespace = $2 and m.topic = topic.name and m.shard < lane.shard and m.ready
           order by m.shard desc, m.number desc limit 1) next
     )
     select lane.shard from lane) lane
   where $8 or coalesce((select true from {schema}.message m
                          where m.namespace = $2 and m.topic = topic.name and m.shard = lane.shard and {claimable} limit 1), false)
   limit $5
)
select exists (select from {schema}.lease where check_at <= (select now from clock))
         or exists (select from {schema}.message where maintenance_class = 1 and maintenance_at <= (select now from clock)) as timers_due,
       (select true from unnest($6::uuid[], $7::uuid[]) as claim (owner, request)
         where (select true from {schema}.lease l where l.request = claim.request and l.owner = claim.owner and l.namespace = $2 limit 1)
         limit 1) is not null as repeated,
       current_setting('transaction_read_only')::boolean as read_only, found.topic, found.shard
  from clock left join found on true
