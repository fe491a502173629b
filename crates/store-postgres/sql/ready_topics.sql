-- Topics of namespace $2 after $3 that have a claimable message, in byte order, at most $4; and whether the server
-- is read-only: at least one row reports it. $1 the time.
-- Plan: one probe of message_lane per topic, and as many messages as are leased at its head.
with recursive clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), topic as (
  (select m.topic as name from {schema}.message m where m.namespace = $2 and m.topic > $3 and m.ready order by m.topic limit 1)
  union all
  select next.topic
    from topic
   cross join lateral (
     select m.topic from {schema}.message m where m.namespace = $2 and m.topic > topic.name and m.ready order by m.topic limit 1) next
), found as (
  select topic.name
    from topic, clock
   where exists (select from {schema}.message m where m.namespace = $2 and m.topic = topic.name and {claimable})
   limit $4
)
select current_setting('transaction_read_only')::boolean as read_only, found.name
  from clock left join found on true
