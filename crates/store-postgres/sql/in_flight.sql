-- Counts the leased messages of namespace $2, up to $3, and returns whether the server is read-only. $1 the time.
-- Plan: the leases, of which there are few.
select current_setting('transaction_read_only')::boolean, count(*) from (
  select from {schema}.lease
   where namespace = $2 and in_flight and until > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
   limit $3) counted
