-- Counts the messages of namespace $2 by state; each cell is counted up to $3. $1 the time.
-- Plan: message_number per state, in its order, so that the planner considers nothing else; message_lane for ready
-- messages; the leases, of which there are few.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), cell as (
  select state, (select count(*) from (
           select from {schema}.message m where m.namespace = $2 and m.state = cell.state order by m.number limit $3) counted) as number
    from unnest(array[0, 1, 2, 3]::smallint[]) as cell (state)
)
select (select number from cell where state = 0), (select number from cell where state = 1),
       (select number from cell where state = 2), (select number from cell where state = 3),
       (select count(*) from (select from {schema}.message m, clock where m.namespace = $2 and {claimable} limit $3) counted),
       (select count(*) from (select from {schema}.lease l where l.namespace = $2 and l.in_flight limit $3) counted)
