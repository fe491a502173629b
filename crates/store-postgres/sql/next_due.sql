-- Whether the server is read-only; whether records have expired; when the next timer is due; and per maintenance class
-- its first entry. $1 the time (null: the server's).
-- Plan: one probe of lease_check, one of message_maintenance per class, one of record_expiry per kind of records.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
)
select current_setting('transaction_read_only')::boolean, clock.now,
       exists (select from {schema}.record_kind k
                where exists (select from {schema}.record r
                               where r.kind = k.name and r.expires_at <= clock.now and r.expires_at < 9223372036854775807)),
       (select min(check_at) from {schema}.lease), class.code,
       (select min(m.maintenance_at) from {schema}.message m where m.maintenance_class = class.code)
  from clock, unnest(array[1, 2, 3, 4, 5, 13, 14, 15]::smallint[]) as class (code)
