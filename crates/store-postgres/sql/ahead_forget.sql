-- Forgets what was given out of lanes that nothing holds back any more. $1 the time (null: the server's). Plan: the table, which has a row per lane that
-- was held back when a process began.
delete from {schema}.ahead a
 where (a.topic, a.shard) in (
   select b.topic, b.shard from {schema}.ahead b
    where b.until <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
      for update skip locked)
