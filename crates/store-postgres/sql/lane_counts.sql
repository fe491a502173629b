-- How many unfinished messages the lanes $1 namespaces, $2 topics, $3 shards have, counted up to $4 each.
-- Plan: message_lane and message_waiting, a range of each per lane.
select (select count(*) from (select from {schema}.message m
          where m.namespace = lane.namespace and m.topic = lane.topic and m.shard = lane.shard and m.ready limit lane.most) counted)
     + (select count(*) from (select from {schema}.message m
          where m.namespace = lane.namespace and m.topic = lane.topic and m.shard = lane.shard and m.state = 1 and not m.ready limit lane.most) counted)
  from unnest($1::smallint[], $2::text[], $3::integer[], $4::bigint[]) with ordinality as lane (namespace, topic, shard, most, place)
 order by lane.place
