-- By primary key; only changes a row under the caller's lease. Deletes the key.
delete from {schema}.queue where id = any ($1) and owner = $2 and state = 1
