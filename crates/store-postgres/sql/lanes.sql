-- The lanes of namespace $2 below ($3 topic, $4 shard) that have a ready message, or, unless $8, a claimable one; in
-- descending order, at most $5. Also whether timers are due, whether one of the requests $7 of the owners $6 already
-- has leases, and whether the server is read-only, in which case its data may be stale. $1 the time.
-- Descending, so that each lane is entered at its newest message: at its oldest there may be many finished row
-- versions that the server cannot remove yet.
-- Plan: one probe of message_lane per lane, however many messages it has, and as in a claim where a claimable
-- message is required; lease_check and message_maintenance once; lease_request once per request.
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
select exists (select from {schema}.lease where check_at <= (select now from clock))
         or exists (select from {schema}.message where maintenance_class = 1 and maintenance_at <= (select now from clock)) as timers_due,
       (select true from unnest($6::uuid[], $7::uuid[]) as claim (owner, request)
         where (select true from {schema}.lease l where l.request = claim.request and l.owner = claim.owner and l.namespace = $2 limit 1)
         limit 1) is not null as repeated,
       current_setting('transaction_read_only')::boolean as read_only, found.topic, found.shard
  from clock left join found on true
