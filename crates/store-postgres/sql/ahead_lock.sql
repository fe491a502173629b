-- Locks and reads the deliveries out of mailbox lanes that are limited after a restart: $1 topics, $2 shards, $3
-- when the limit ends at the latest; in one order, so that two processes that lock the same lanes do not deadlock.
-- Waits at most 50 ms. Plan: ahead_pkey once per lane.
with waiting as materialized (select set_config('lock_timeout', '50', true) as lock_timeout)
insert into {schema}.ahead as a (topic, shard, numbers, fences, until)
select lane.topic, lane.shard, '{}'::bigint[], '{}'::bigint[], lane.until
  from waiting, unnest($1::text[], $2::integer[], $3::bigint[]) as lane (topic, shard, until)
on conflict (topic, shard) do update
   set until = greatest(a.until, excluded.until)
returning a.topic, a.shard, a.numbers, a.fences
