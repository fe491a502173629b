-- Ends leases of messages that are locked. Plan: lease_pkey once per uid.
delete from {schema}.lease where uid = any($1)
