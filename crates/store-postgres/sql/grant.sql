-- Leases the locked messages $2 to $3 for $5 ms, request $4, limit of attempts $6. $1 the time. Plan: message_pkey and lease_pkey once per message.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now
), granted as (
  insert into {schema}.lease as l (uid, owner, request, place, fence, until, extend_max, attempts_max, check_at, namespace, in_flight, partition)
  select m.uid, $3, $4, chosen.place, (select {schema}.next_ticket()) * 16384 + chosen.place, clock.now + $5,
         case when m.namespace = 3 then clock.now + 10 * $5 else 9223372036854775807 end, $6, clock.now + $5, m.namespace, true, m.partition
    from clock, unnest($2::uuid[]) with ordinality as chosen (uid, place)
    join {schema}.message m on m.uid = any(array[chosen.uid])
   order by chosen.place
  on conflict do nothing
  returning l.*
)
select granted.fence, granted.until, {delivery}
  from granted
  join {schema}.message m on m.uid = any(array[granted.uid])
 order by granted.fence
