-- Writes what was given out of lanes that are locked: $1 topics, $2 shards, $3 numbers, $4 fences, one of each per message. Plan: the table, which has a row
-- per lane that is held back.
update {schema}.ahead a
   set numbers = given.numbers, fences = given.fences
  from (select one.topic, one.shard, array_agg(one.number order by one.number) as numbers, array_agg(one.fence order by one.number) as fences
          from unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) as one (topic, shard, number, fence)
         group by one.topic, one.shard) given
 where a.topic = given.topic and a.shard = given.shard
