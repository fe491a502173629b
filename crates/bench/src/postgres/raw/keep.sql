-- By primary key; counts only under the lease. The key stays.
update {schema}.queue set state = 2 where id = any ($1) and owner = $2 and state = 1
