-- Versions and sizes of the records of kind $1 that were written first, except the one with the id $2, at most $3. Plan: a
-- range of record_version.
select r.version, r.bytes from {schema}.record r where r.kind = $1 and r.id <> $2 order by r.version limit $3
