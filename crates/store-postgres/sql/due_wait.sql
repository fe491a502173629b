-- Locks messages with due timers: lapsed leases and messages of maintenance class 1. $1 the time (null: the
-- server's), $2 at most.
-- Waits at most 50 ms for locked messages. Plan: as in due.sql.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now,
         set_config('lock_timeout', '50', true) as lock_timeout
), due as (
  (select l.uid from {schema}.lease l where l.check_at <= (select now from clock) order by l.check_at limit $2)
  union
  (select m.uid from {schema}.message m where m.maintenance_class = 1 and m.maintenance_at <= (select now from clock) order by m.maintenance_at limit $2)
  limit $2
)
select {columns}, octet_length(m.payload) as payload_bytes
  from {schema}.message m
 where m.uid = any(array(select uid from due))
 order by m.uid
   for update of m
