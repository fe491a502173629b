-- Writes the deliveries out of lanes whose rows are locked: $1 topics, $2 shards, $3 numbers, $4 fences, one of each
-- per message. Plan: the table, which has one row per limited lane.
update {schema}.ahead a
   set numbers = input.numbers, fences = input.fences
  from (select one.topic, one.shard, array_agg(one.number order by one.number) as numbers, array_agg(one.fence order by one.number) as fences
          from unnest($1::text[], $2::integer[], $3::bigint[], $4::bigint[]) as one (topic, shard, number, fence)
         group by one.topic, one.shard) input
 where a.topic = input.topic and a.shard = input.shard
