-- How messages of namespace $2 stand, of topic $3 and shard $4 if these are not null; each cell is counted up to $5. $1 the time.
-- Plan: message_number per state, in its order, so that nothing else is thought of; for what is ready, message_lane; the leases, which are few.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), cell as (
  select state, (select count(*) from (
           select from {schema}.message m
            where m.namespace = $2 and m.state = cell.state and ($3::text is null or m.topic = $3) and ($4::integer is null or m.shard = $4)
            order by m.number limit $5) counted) as number
    from unnest(array[0, 1, 2, 3]::smallint[]) as cell (state)
)
select (select number from cell where state = 0), (select number from cell where state = 1),
       (select number from cell where state = 2), (select number from cell where state = 3),
       (select count(*) from (
          select from {schema}.message m, clock
           where m.namespace = $2 and ($3::text is null or m.topic = $3) and ($4::integer is null or m.shard = $4) and {claimable} limit $5) counted),
       (select count(*) from (
          select from {schema}.lease l
            join {schema}.message m on m.uid = any(array[l.uid])
           where l.namespace = $2 and l.in_flight and ($3::text is null or m.topic = $3) and ($4::integer is null or m.shard = $4) limit $5) counted)
