-- Locks the kind $2 of records, and returns what its records use and the time ($1 null: the server's). Waits at most
-- five seconds for another transaction.
-- The time is read after the lock was acquired, so that a write never has an earlier time than the one before it.
-- Plan: record_kind_pkey.
with wait as materialized (select set_config('lock_timeout', '5000', true) as lock_timeout)
insert into {schema}.record_kind as k (name, last_version, records, bytes)
select $2, 0, 0, 0 from wait
on conflict (name) do update set name = excluded.name
returning k.last_version, k.records, k.bytes, coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
