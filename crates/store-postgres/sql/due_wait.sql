-- Locks messages that time has something in store for: leases that have ended, and what waits on shelf 1. $1 the time (null: the server's), $2 at most.
-- Who is locked is waited for, 50 ms at most. Plan: lease_check and message_shelf, then message_pkey.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now,
         set_config('lock_timeout', '50', true) as lock_timeout
), due as (
  (select l.uid from {schema}.lease l, clock where l.check_at <= clock.now order by l.check_at limit $2)
  union
  (select m.uid from {schema}.message m, clock where m.shelf = 1 and m.shelf_at <= clock.now order by m.shelf_at limit $2)
  limit $2
)
select {columns}, octet_length(m.payload) as payload_bytes
  from {schema}.message m
 where m.uid = any(array(select uid from due))
 order by m.uid
   for update of m
