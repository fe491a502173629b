-- The lanes of namespace $2 below ($3 topic, $4 shard) that have something ready, or, unless $8, something claimable; downwards, $5 at most. Whether time
-- has brought something; and whether one of the requests $7 of the owners $6 has something already; and whether the server only reads, so that what
-- it has may be old. $1 the time.
-- Downwards, so that each lane is met at its newest message: at its oldest there may be much that is finished and that the server still has to keep.
-- Plan: one probe of message_lane per lane, however many messages they hold, and as a claim does where something claimable is asked for; lease_check and
-- message_shelf once; lease_request per request.
with recursive clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), lane as (
  (select m.topic, m.shard from {schema}.message m
    where m.namespace = $2 and (m.topic, m.shard) < ($3, $4) and m.ready order by m.topic desc, m.shard desc, m.number desc limit 1)
  union all
  select next.topic, next.shard
    from lane
   cross join lateral (
     select m.topic, m.shard from {schema}.message m
      where m.namespace = $2 and (m.topic, m.shard) < (lane.topic, lane.shard) and m.ready
      order by m.topic desc, m.shard desc, m.number desc limit 1) next
), found as (
  select lane.topic, lane.shard
    from lane, clock
   where $8 or coalesce((select true from {schema}.message m
                          where m.namespace = $2 and m.topic = lane.topic and m.shard = lane.shard and {claimable} limit 1), false)
   limit $5
)
select exists (select from {schema}.lease, clock where check_at <= clock.now)
         or exists (select from {schema}.message, clock where shelf = 1 and shelf_at <= clock.now) as pending,
       (select true from unnest($6::uuid[], $7::uuid[]) as wish (owner, request)
         where (select true from {schema}.lease l where l.request = wish.request and l.owner = wish.owner and l.namespace = $2 limit 1)
         limit 1) is not null as repeated,
       current_setting('transaction_read_only')::boolean as read_only, found.topic, found.shard
  from clock left join found on true
