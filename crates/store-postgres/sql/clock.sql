-- The time ($1 null: the server's) and a ticket. Asked for when everything is locked: what is decided happens now, not when waiting began.
select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), {schema}.next_ticket() * 16384
