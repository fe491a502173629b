-- States: 0 ready, 1 leased, 2 done. The unique key detects duplicates; the id defines the order.
create table {schema}.queue (
  id           bigint generated always as identity primary key,
  key          text collate "C" not null unique,
  topic        text collate "C" not null,
  payload      bytea not null,
  accepted_at  timestamptz not null default now(),
  leased_until timestamptz,
  owner        integer,
  state        smallint not null default 0
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1)
