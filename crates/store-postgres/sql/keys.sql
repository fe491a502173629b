-- Whether the server only reads; and how many messages and keys there are: counted, $2 at most, and as the server's statistics tell. $1 the table's
-- quoted name. Plan: the beginning of message_pkey.
select current_setting('transaction_read_only')::boolean, (select count(*) from (select from {schema}.message order by uid limit $2) few),
       coalesce(pg_stat_get_live_tuples(to_regclass($1)::oid), 0)
