-- Contains only ready rows, so that a claim finds the oldest one at its start.
create index queue_ready on {schema}.queue (id) where state = 0
