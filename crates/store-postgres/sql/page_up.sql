-- A page by number, in ascending order: $1 the time, $2 namespace, $3 states, $4 after this number, $5 at most, $6
-- dead reason, $7 topic, $8 source (null: any); reads at most $9 messages of each state and returns where it
-- stopped. Plan: message_number, one range per state.
with seen as (
  select m.*, row_number() over (partition by m.state order by m.number) as scanned
    from unnest($3::smallint[]) as wanted (state)
   cross join lateral (
     select * from {schema}.message m where m.namespace = $2 and m.state = wanted.state and m.number > $4 order by m.number limit $9) m
), edge as (
  -- Nothing is known beyond the lowest number at which the scan of a state was cut off.
  select coalesce(min(number), 9223372036854775807) as number from seen where scanned = $9
)
select edge.number as edge, coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now, {columns}, {content_without_payload},
       {lease}
  from edge
  left join lateral (
    select * from seen
     where seen.number <= edge.number and ($6::smallint is null or seen.dead = $6) and ($7::text is null or seen.topic = $7) and ($8::text is null or seen.source = $8)
     order by seen.number limit $5) m on true
  left join {schema}.lease l on l.uid = any(array[m.uid])
 order by m.number
