-- Versions and sizes of the records of kind $1 that have expired by $2, except the one with the id $3 (null: none), at
-- most $4. Plan: a range of record_expiry.
select r.version, r.bytes from {schema}.record r
 where r.kind = $1 and r.expires_at <= $2 and r.expires_at < 9223372036854775807 and r.id is distinct from $3
 order by r.expires_at limit $4
