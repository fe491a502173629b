-- The number of messages and keys according to the server's statistics. $1 the table's quoted name. Plan: no scan.
select coalesce(pg_stat_get_live_tuples(to_regclass($1)::oid), 0)
