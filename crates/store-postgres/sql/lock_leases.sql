-- Locks the leases of messages that are already locked, so that no heartbeat can change them in between.
-- Plan: lease_pkey once per uid.
select {lease}
  from {schema}.lease l
 where l.uid = any($1)
 order by l.uid
   for update
