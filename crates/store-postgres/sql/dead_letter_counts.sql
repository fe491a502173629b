-- Counts the removable dead letters of the topics $1: each up to one more than its limit in $2 (null: not counted),
-- in order, and all together up to $3. Plan: a range of message_removable_dead_letter per topic.
select counted.ordinal, count(*)
  from (select topic.ordinal
          from unnest($1::text[], $2::bigint[]) with ordinality as topic (name, messages_max, ordinal)
         cross join lateral (
           select from {schema}.message b
            where b.maintenance_class + 0 = 14 and coalesce(b.topic, '') = topic.name
            order by b.maintenance_at, b.number limit coalesce(topic.messages_max + 1, 0)) dead_letter
         limit $3) counted
 group by counted.ordinal
