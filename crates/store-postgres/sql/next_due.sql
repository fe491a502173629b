-- Whether the server only reads; when time changes something next; and per shelf the first entry, for what is forgotten. $1 the time (null: the server's).
-- Plan: one probe of lease_check, one of message_shelf per shelf.
select current_setting('transaction_read_only')::boolean,
       coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint), (select min(check_at) from {schema}.lease), shelf.name,
       (select min(m.shelf_at) from {schema}.message m where m.shelf = shelf.name)
  from unnest(array[1, 2, 3, 4, 5, 13, 14, 15]::smallint[]) as shelf (name)
