-- Scans the index `ready` from its start, then updates by primary key.
UPDATE queue SET state = 1, owner = ?1, leased_until = ?2
WHERE number IN (SELECT number FROM queue WHERE state = 0 ORDER BY number LIMIT ?3)
RETURNING number, payload
