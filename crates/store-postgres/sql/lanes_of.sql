-- The lanes of the topics $3 in namespace $2 that have something ready, $4 at most; whether time has brought something; and whether one of the requests $6 of the
-- owners $5 has something already. $1 the time.
-- Plan: one probe of message_lane per topic and per lane, however many messages they hold; lease_check and message_shelf once; lease_request per request.
with recursive clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), lane as (
  select topic.name as topic, first.shard
    from unnest($3::text[]) as topic (name)
   cross join lateral (
     select m.shard from {schema}.message m
      where m.namespace = $2 and m.topic = topic.name and m.ready order by m.shard limit 1) first
  union all
  select lane.topic, next.shard
    from lane
   cross join lateral (
     select m.shard from {schema}.message m
      where m.namespace = $2 and m.topic = lane.topic and m.shard > lane.shard and m.ready order by m.shard limit 1) next
), found as (
  select topic, shard from lane limit $4
)
select exists (select from {schema}.lease, clock where check_at <= clock.now)
         or exists (select from {schema}.message, clock where shelf = 1 and shelf_at <= clock.now) as pending,
       (select true from unnest($5::uuid[], $6::uuid[]) as wish (owner, request)
         where (select true from {schema}.lease l where l.request = wish.request and l.owner = wish.owner and l.namespace = $2 limit 1)
         limit 1) is not null as repeated,
       found.topic, found.shard
  from clock left join found on true
