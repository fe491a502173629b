-- Counts the unfinished messages of lanes ($1 namespaces, $2 topics, $3 shards), each up to $4.
-- Plan: message_lane and message_waiting, a range of each per lane.
select (select count(*) from (select from {schema}.message m
          where m.namespace = lane.namespace and m.topic = lane.topic and m.shard = lane.shard and m.ready limit lane.count_max) counted)
     + (select count(*) from (select from {schema}.message m
          where m.namespace = lane.namespace and m.topic = lane.topic and m.shard = lane.shard and m.state = 1 and not m.ready limit lane.count_max) counted)
  from unnest($1::smallint[], $2::text[], $3::integer[], $4::bigint[]) with ordinality as lane (namespace, topic, shard, count_max, ordinal)
 order by lane.ordinal
