-- Topics with dead letters that need not be kept, in byte order from $1 on, $2 at most, and when the oldest of each died.
-- Letters without content have the topic ''. Plan: two probes of message_letter per topic, however many letters it has.
with recursive topic (name, place) as (
  (select coalesce(m.topic, ''), 1 from {schema}.message m
    where m.shelf + 0 = 14 and coalesce(m.topic, '') >= $1
    order by coalesce(m.topic, '') limit 1)
  union all
  select (select coalesce(m.topic, '') from {schema}.message m
           where m.shelf + 0 = 14 and coalesce(m.topic, '') > t.name
           order by coalesce(m.topic, '') limit 1), t.place + 1
    from topic t where t.name is not null and t.place < $2
)
select t.name, (select m.shelf_at from {schema}.message m
                 where m.shelf + 0 = 14 and coalesce(m.topic, '') = t.name order by m.shelf_at, m.number limit 1)
  from topic t where t.name is not null
