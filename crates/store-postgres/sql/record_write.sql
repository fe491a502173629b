-- Writes a record: $1 kind, $2 id, $3 version, $4 when it is written, $5 when it expires, $6 its bytes, $7 its value. Plan:
-- record_pkey.
insert into {schema}.record (kind, id, version, written_at, expires_at, bytes, value) values ($1, $2, $3, $4, $5, $6, $7)
on conflict (kind, id) do update
   set version = excluded.version, written_at = excluded.written_at, expires_at = excluded.expires_at,
       bytes = excluded.bytes, value = excluded.value
