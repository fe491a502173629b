-- Scans only the arrays; one probe of the unique index per message.
insert into {schema}.queue (key, topic, payload)
select * from unnest($1::text[], $2::text[], $3::bytea[]) on conflict do nothing
