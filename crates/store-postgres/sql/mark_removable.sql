-- Moves messages that need not be kept any longer from maintenance class $2 to its removable class ($2 + 10),
-- ordered by the time from which their retention counts. $1 the time, $3 at most. Returns the topics whose number of
-- removable dead letters has grown; dead letters without content have the topic ''.
-- Plan: as in delete_removable.sql.
with marked as (
  update {schema}.message m
     set maintenance_class = $2 + 10, maintenance_at = case when m.state = 0 then m.accepted_at else m.finished_at end
   where m.uid = any(array(
     select b.uid from {schema}.message b
      where b.maintenance_class = $2 and b.maintenance_at <= (select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint))
      order by b.maintenance_at limit $3 for update skip locked))
  returning m.topic
)
select distinct coalesce(marked.topic, '') from marked where $2 = 4
