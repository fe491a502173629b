-- Holds only what is ready, so a claim finds the oldest at its beginning.
create index queue_ready on {schema}.queue (id) where state = 0
