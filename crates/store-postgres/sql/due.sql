-- Locks messages with due timers: lapsed leases and messages of maintenance class 1. $1 the time (null: the
-- server's), $2 at most.
-- Skips locked messages: the transaction that locked them processes them. Plan: lease_check and message_maintenance,
-- then message_pkey. The time is a scalar subquery, because a join with `clock` would not limit the ranges of the
-- indexes: everything that is due later would be read and left out.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), due as (
  (select l.uid from {schema}.lease l where l.check_at <= (select now from clock) order by l.check_at limit $2)
  union
  (select m.uid from {schema}.message m where m.maintenance_class = 1 and m.maintenance_at <= (select now from clock) order by m.maintenance_at limit $2)
  limit $2
)
select {columns}, octet_length(m.payload) as payload_bytes
  from {schema}.message m
 where m.uid = any(array(select uid from due))
   for update of m skip locked
