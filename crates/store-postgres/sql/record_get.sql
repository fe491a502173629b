-- The record of kind $1 with the id $2, expired or not. Plan: record_pkey.
select r.id, r.version, r.written_at, r.expires_at, r.value from {schema}.record r where r.kind = $1 and r.id = $2
