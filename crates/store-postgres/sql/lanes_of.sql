-- The lanes of the topics $3 in namespace $2 that have something ready, or, unless $8, something claimable; topics as they come, shards downwards, of the
-- first topic only those below $4; $5 at most. Whether time has brought something; and whether one of the requests $7 of the owners $6 has something
-- already. $1 the time.
-- Plan: as lanes.sql.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), found as (
  select topic.name as topic, lane.shard
    from clock, unnest($3::text[]) with ordinality as topic (name, place)
   cross join lateral (
     with recursive lane as (
       (select m.shard from {schema}.message m
         where m.namespace = $2 and m.topic = topic.name and m.shard < case when topic.place = 1 then $4 else 65536 end and m.ready
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
select exists (select from {schema}.lease, clock where check_at <= clock.now)
         or exists (select from {schema}.message, clock where shelf = 1 and shelf_at <= clock.now) as pending,
       (select true from unnest($6::uuid[], $7::uuid[]) as wish (owner, request)
         where (select true from {schema}.lease l where l.request = wish.request and l.owner = wish.owner and l.namespace = $2 limit 1)
         limit 1) is not null as repeated,
       current_setting('transaction_read_only')::boolean as read_only, found.topic, found.shard
  from clock left join found on true
