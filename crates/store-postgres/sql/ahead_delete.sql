-- Deletes the rows of lanes that are no longer limited. $1 the time (null: the server's). Plan: the table, which has
-- one row per lane that was limited when a process started.
delete from {schema}.ahead a
 where (a.topic, a.shard) in (
   select b.topic, b.shard from {schema}.ahead b
    where b.until <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
      for update skip locked)
