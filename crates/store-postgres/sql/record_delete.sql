-- Deletes the records of kind $1 with these versions ($2). Plan: record_version once per record.
delete from {schema}.record r where r.kind = $1 and r.version = any($2)
