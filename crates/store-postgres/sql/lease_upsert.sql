-- Writes the leases of locked messages; one array per column, from `columns.rs`. Plan: lease_pkey once per lease.
insert into {schema}.lease ({lease_names}, check_at)
select {lease_names}, until
  from {lease_input}
on conflict (uid) do update
   set {lease_assignments}, check_at = excluded.until
