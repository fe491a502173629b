-- Whether the server is read-only; when the next timer is due; and per maintenance class its first entry. $1 the
-- time (null: the server's).
-- Plan: one probe of lease_check, one of message_maintenance per class.
select current_setting('transaction_read_only')::boolean,
       coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), (select min(check_at) from {schema}.lease), class.code,
       (select min(m.maintenance_at) from {schema}.message m where m.maintenance_class = class.code)
  from unnest(array[1, 2, 3, 4, 5, 13, 14, 15]::smallint[]) as class (code)
