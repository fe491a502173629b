-- By primary key; only changes a row under the caller's lease.
UPDATE queue SET state = 2 WHERE number = ?1 AND owner = ?2 AND state = 1
