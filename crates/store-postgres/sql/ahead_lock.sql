-- Locks what was given out of mailbox lanes that are held back, and reads it: $1 topics, $2 shards, $3 until when at the latest; in one order, so that two
-- who want the same lanes do not wait for each other. Waits 50 ms at most. Plan: ahead_pkey once per lane.
with waiting as materialized (select set_config('lock_timeout', '50', true) as lock_timeout)
insert into {schema}.ahead as a (topic, shard, numbers, fences, until)
select lane.topic, lane.shard, '{}'::bigint[], '{}'::bigint[], lane.until
  from waiting, unnest($1::text[], $2::integer[], $3::bigint[]) as lane (topic, shard, until)
on conflict (topic, shard) do update
   set until = greatest(a.until, excluded.until)
returning a.topic, a.shard, a.numbers, a.fences
