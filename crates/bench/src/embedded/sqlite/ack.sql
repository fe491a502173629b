-- By primary key; counts only under the lease.
UPDATE queue SET state = 2 WHERE number = ?1 AND owner = ?2 AND state = 1
