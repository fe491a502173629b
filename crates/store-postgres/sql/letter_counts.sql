-- How many dead letters that need not be kept the topics $1 have: each counted up to one more than its bound in $2 (null: not at all), in order, and all of
-- them together up to $3. Plan: a range of message_letter per topic.
select counted.place, count(*)
  from (select topic.place
          from unnest($1::text[], $2::bigint[]) with ordinality as topic (name, messages_max, place)
         cross join lateral (
           select from {schema}.message b
            where b.shelf + 0 = 14 and coalesce(b.topic, '') = topic.name
            order by b.shelf_at, b.number limit coalesce(topic.messages_max + 1, 0)) letter
         limit $3) counted
 group by counted.place
