-- Forgets what has been on shelf $2 since $3 ms ago or longer; $1 the time, $4 at most. Plan: message_shelf, then message_pkey.
delete from {schema}.message m
 where m.uid = any(array(
   select b.uid from {schema}.message b
    where b.shelf = $2 and b.shelf_at <= coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) - $3
    order by b.shelf_at limit $4 for update skip locked))
