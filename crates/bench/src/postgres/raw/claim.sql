-- Scans queue_ready from its start, skipping rows that other claims have locked, then updates by primary key.
update {schema}.queue set state = 1, owner = $1, leased_until = now() + interval '30 s'
 where id = (select id from {schema}.queue where state = 0 order by id limit 1 for update skip locked)
returning id, key, topic, payload
