-- Counts the messages of namespace $2 and topic $3 in shards $4 to $5 by state; each cell is counted up to $6. $1
-- the time. Seen messages have no topic.
-- Plan: a range of message_lane, message_waiting, message_done and message_dead; the leases, of which there are few.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select 0::bigint,
       (select count(*) from (
          select from {schema}.message m
           where m.namespace = $2 and m.topic = $3 and m.shard between $4 and $5 and m.ready limit $6) counted)
       + (select count(*) from (
          select from {schema}.message m
           where m.namespace = $2 and m.topic = $3 and m.shard between $4 and $5 and m.state = 1 and not m.ready limit $6) counted),
       (select count(*) from (
          select from {schema}.message m
           where m.namespace = $2 and m.topic = $3 and m.shard between $4 and $5 and m.state + 0 = 2 and m.topic is not null limit $6) counted),
       (select count(*) from (
          select from {schema}.message m
           where m.namespace = $2 and m.topic = $3 and m.shard between $4 and $5 and m.state + 0 = 3 limit $6) counted),
       (select count(*) from (
          select from {schema}.message m, clock
           where m.namespace = $2 and m.topic = $3 and m.shard between $4 and $5 and {claimable} limit $6) counted),
       (select count(*) from (
          select from {schema}.lease l
            join {schema}.message m on m.uid = any(array[l.uid])
           where l.namespace = $2 and l.in_flight and m.topic = $3 and m.shard between $4 and $5 limit $6) counted)
