-- Extends current leases. $1 the time (null: the server's); $2 uids, each once; $3 owners; $4 fences; $5
-- milliseconds from now. Returns the leases with their ends; null for those that another transaction has locked: their
-- heartbeats must not keep the others from being extended.
-- Plan: lease_pkey twice per item, and once more for those that are locked or lost; updates no index.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), input as materialized (
  select input.* from unnest($2::uuid[], $3::uuid[], $4::bigint[], $5::bigint[]) as input (uid, owner, fence, lease_ms)
), free as materialized (
  select l.uid, input.lease_ms
    from input, clock, {schema}.lease l
   where l.uid = any(array[input.uid]) and l.owner = input.owner and l.fence = input.fence and l.until > clock.now
     for no key update of l skip locked
), extended as (
  update {schema}.lease l
     set until = greatest(l.until, least(clock.now + free.lease_ms, l.extend_max))
    from clock, free
   where l.uid = any(array[free.uid])
  returning l.uid, l.until
)
select uid, until from extended
union all
select l.uid, null
  from input, clock, {schema}.lease l
 where not exists (select from free where free.uid = input.uid)
   and l.uid = any(array[input.uid]) and l.owner = input.owner and l.fence = input.fence and l.until > clock.now
