-- By primary key; counts only under the lease. The key is gone.
delete from {schema}.queue where id = any ($1) and owner = $2 and state = 1
