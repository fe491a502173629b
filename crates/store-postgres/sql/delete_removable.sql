-- Deletes messages of maintenance class $2 whose maintenance time was at least $3 ms ago; $1 the time, $4 at most.
-- Plan: a range of message_maintenance up to the time, then message_pkey. The time is a scalar subquery, because the
-- server does not limit a range by a volatile expression.
delete from {schema}.message m
 where m.uid = any(array(
   select b.uid from {schema}.message b
    where b.maintenance_class = $2 and b.maintenance_at <= (select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $3)
    order by b.maintenance_at limit $4 for update skip locked))
