-- Deletes the leases of locked messages. Plan: lease_pkey once per uid.
delete from {schema}.lease where uid = any($1)
