-- By primary key; only changes a row under the caller's lease. Keeps the key.
update {schema}.queue set state = 2 where id = any ($1) and owner = $2 and state = 1
