-- Whether the server is read-only; and the number of messages and keys: counted, up to $2, and estimated from the
-- server's statistics. $1 the table's quoted name. Plan: the beginning of message_pkey.
select current_setting('transaction_read_only')::boolean, (select count(*) from (select from {schema}.message order by uid limit $2) few),
       coalesce(pg_stat_get_live_tuples(to_regclass($1)::oid), 0)
