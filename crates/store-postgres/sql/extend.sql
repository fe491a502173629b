-- Extends current leases. $1 the time (null: the server's); $2 uids, each once; $3 owners; $4 fences; $5
-- milliseconds from now.
-- Plan: lease_pkey once per item; updates no index.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now,
         set_config('lock_timeout', '50', true) as lock_timeout
)
update {schema}.lease l
   set until = greatest(l.until, least(clock.now + input.lease_ms, l.extend_max))
  from clock, unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) as input (uid, owner, fence, lease_ms)
 where l.uid = any(array[input.uid]) and l.owner = input.owner and l.fence = input.fence and l.until > clock.now
returning l.uid, l.until
