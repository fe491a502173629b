-- The time ($1 null: the server's) and an id block. Runs after everything is locked, so that the decision is made at
-- the current time and not at the time when waiting began.
select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), {schema}.next_id_block() * 16384
