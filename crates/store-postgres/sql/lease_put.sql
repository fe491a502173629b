-- Writes the leases of messages that are locked; one array per column, from `columns.rs`. Plan: lease_pkey once per lease.
insert into {schema}.lease ({lease_names}, check_at)
select {lease_names}, until
  from {lease_given}
on conflict (uid) do update
   set {lease_assignments}, check_at = excluded.until
