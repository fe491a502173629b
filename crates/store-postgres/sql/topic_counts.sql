-- Counts the messages of namespace $2 by topic, from topic $3 on in byte order, at most $4 topics; only $3, whether
-- or not it is listed, if $7. Each cell is counted up to $5, and at most $6 workers are named. $1 the time.
-- One row per topic: whether the server is read-only (at least one row reports it), the name, then the numbers of
-- messages that are claimable, in their lanes (ready, leased or blocked by a partition), waiting for a timer,
-- leased, and Dead; when the first claimable one was accepted; the names of workers with leases, sorted; and how
-- many leases were counted for all topics together.
-- Plan: one probe of message_lane, message_waiting and message_dead per topic finds the names; a range of each
-- counts. Leases have no topic: the messages of some leases are read, but not for a single topic without unfinished
-- messages.
with recursive clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), lane_topic as (
  (select m.topic as name from {schema}.message m where not $7 and m.namespace = $2 and m.topic >= $3 and m.ready order by m.topic limit 1)
  union all
  select next.topic
    from lane_topic
   cross join lateral (
     select m.topic from {schema}.message m where m.namespace = $2 and m.topic > lane_topic.name and m.ready order by m.topic limit 1) next
), waiting_topic as (
  (select m.topic as name from {schema}.message m
    where not $7 and m.namespace = $2 and m.topic >= $3 and m.state = 1 and not m.ready order by m.topic limit 1)
  union all
  select next.topic
    from waiting_topic
   cross join lateral (
     select m.topic from {schema}.message m
      where m.namespace = $2 and m.topic > waiting_topic.name and m.state = 1 and not m.ready order by m.topic limit 1) next
), dead_topic as (
  (select m.topic as name from {schema}.message m where not $7 and m.namespace = $2 and m.topic >= $3 and m.state + 0 = 3 order by m.topic limit 1)
  union all
  select next.topic
    from dead_topic
   cross join lateral (
     select m.topic from {schema}.message m where m.namespace = $2 and m.topic > dead_topic.name and m.state + 0 = 3 order by m.topic limit 1) next
), leased as materialized (
  select m.topic as name, count(*) as number,
         (array_agg(distinct l.worker) filter (where l.worker is not null))[:$6] as workers
    from (select l.uid, l.worker
            from {schema}.lease l
           where (not $7
                  or exists (select from {schema}.message m where m.namespace = $2 and m.topic = $3 and m.ready)
                  or exists (select from {schema}.message m where m.namespace = $2 and m.topic = $3 and m.state = 1 and not m.ready))
             and l.namespace = $2 and l.in_flight
           limit $5) l
    join {schema}.message m on m.uid = any(array[l.uid])
   group by m.topic
), found as (
  select named.name
    from ((select name from lane_topic limit $4)
          union (select name from waiting_topic limit $4)
          union (select name from dead_topic limit $4)
          union (select $3 where $7)) named
   order by named.name
   limit $4
)
select current_setting('transaction_read_only')::boolean as read_only, found.name,
       (select count(*) from (
          select from {schema}.message m where m.namespace = $2 and m.topic = found.name and {claimable} limit $5) counted),
       (select count(*) from (
          select from {schema}.message m where m.namespace = $2 and m.topic = found.name and m.ready limit $5) counted),
       (select count(*) from (
          select from {schema}.message m where m.namespace = $2 and m.topic = found.name and m.state = 1 and not m.ready limit $5) counted),
       coalesce((select leased.number from leased where leased.name = found.name), 0),
       (select count(*) from (
          select from {schema}.message m where m.namespace = $2 and m.topic = found.name and m.state + 0 = 3 limit $5) counted),
       oldest.accepted_at, coalesce((select leased.workers from leased where leased.name = found.name), '{}'),
       coalesce((select sum(leased.number) from leased), 0)::bigint
  from clock
  left join found on true
  left join lateral (
    with recursive lane as (
      (select m.shard from {schema}.message m where m.namespace = $2 and m.topic = found.name and m.ready order by m.shard limit 1)
      union all
      select next.shard
        from lane
       cross join lateral (
         select m.shard from {schema}.message m
          where m.namespace = $2 and m.topic = found.name and m.shard > lane.shard and m.ready order by m.shard limit 1) next
    )
    select min(first.accepted_at) as accepted_at
      from lane
     cross join lateral (
       select m.accepted_at from {schema}.message m
        where m.namespace = $2 and m.topic = found.name and m.shard = lane.shard and {claimable} order by m.number limit 1) first
  ) oldest on true
 order by found.name
