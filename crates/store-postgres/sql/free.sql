-- Moves what need not be kept any longer from a bound shelf ($2) to its free one, by since when its retention counts. $1 the time, $3 at most. Answers the
-- topics whose dead letters have become more; letters without content have the topic ''.
-- Plan: message_shelf, then message_pkey.
with freed as (
  update {schema}.message m
     set shelf = $2 + 10, shelf_at = case when m.state = 0 then m.accepted_at else m.finished_at end
   where m.uid = any(array(
     select b.uid from {schema}.message b
      where b.shelf = $2 and b.shelf_at <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
      order by b.shelf_at limit $3 for update skip locked))
  returning m.topic
)
select distinct coalesce(freed.topic, '') from freed where $2 = 4
