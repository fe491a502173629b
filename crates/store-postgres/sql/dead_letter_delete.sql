-- Deletes the oldest dead letters of topics ($2): those that died at least $3 ms ago, and those beyond the newest $4;
-- null means no such limit.
-- $1 the time, $5 at most. Plan: per topic, a range of message_removable_dead_letter from its newest dead letter to
-- the first one beyond $4, and one from its oldest; then message_pkey.
delete from {schema}.message m
 where m.uid = any(array(
   select dead_letter.uid
     from unnest($2::text[], $3::bigint[], $4::bigint[]) as topic (name, keep_ms, messages_max)
     cross join lateral (
       select cutoff.died, cutoff.number from (
         select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - topic.keep_ms as died, 9223372036854775807 as number
          where topic.keep_ms is not null
         union all
         (select b.maintenance_at, b.number from {schema}.message b
           where b.maintenance_class + 0 = 14 and coalesce(b.topic, '') = topic.name and topic.messages_max is not null
           order by b.maintenance_at desc, b.number desc offset topic.messages_max limit 1)) cutoff
        order by cutoff.died desc, cutoff.number desc limit 1) up_to
     cross join lateral (
       select b.uid from {schema}.message b
        where b.maintenance_class + 0 = 14 and coalesce(b.topic, '') = topic.name and (b.maintenance_at, b.number) <= (up_to.died, up_to.number)
        order by b.maintenance_at, b.number limit $5 for update skip locked) dead_letter
    limit $5))
