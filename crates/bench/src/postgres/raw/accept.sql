-- One probe of the unique index; a duplicate changes nothing.
insert into {schema}.queue (key, topic, payload) values ($1, $2, $3) on conflict do nothing
