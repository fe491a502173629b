-- Topics with removable dead letters, in byte order starting at $1, at most $2, and when the oldest dead letter of
-- each died.
-- Dead letters without content have the topic ''. Plan: two probes of message_removable_dead_letter per topic,
-- however many dead letters it has.
with recursive topic (name, ordinal) as (
  (select coalesce(m.topic, ''), 1 from {schema}.message m
    where m.maintenance_class + 0 = 14 and coalesce(m.topic, '') >= $1
    order by coalesce(m.topic, '') limit 1)
  union all
  select (select coalesce(m.topic, '') from {schema}.message m
           where m.maintenance_class + 0 = 14 and coalesce(m.topic, '') > t.name
           order by coalesce(m.topic, '') limit 1), t.ordinal + 1
    from topic t where t.name is not null and t.ordinal < $2
)
select t.name, (select m.maintenance_at from {schema}.message m
                 where m.maintenance_class + 0 = 14 and coalesce(m.topic, '') = t.name order by m.maintenance_at, m.number limit 1)
  from topic t where t.name is not null
