-- Whether the server is read-only, in which case its data may be stale, and the record of kind $2 with the id $3, unless
-- it has expired. $1 the time (null: the server's). Plan: record_pkey.
select current_setting('transaction_read_only')::boolean, r.id, r.version, r.written_at, r.expires_at, r.value
  from (select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now) as clock
  left join {schema}.record r on r.kind = $2 and r.id = $3 and r.expires_at > clock.now
