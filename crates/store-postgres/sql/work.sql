-- Acknowledges deliveries, then claims, in one commit. What is not told as acknowledged was not touched.
-- $1 the time (null: the server's). Acknowledged: $2 uids, each once, $3 owners, $4 fences.
-- Claimed in namespace $5: from the lanes $6 topics, $7 shards, $8 lowest numbers worth a look; $9 messages of each lane at most;
-- dealt to the claims $10 owners, $11 requests, $12 leases in ms, $13 how many, $15 how many they have had. $14: if time has brought something, claim
-- nothing and say so. $16: a request that has leases already gets nothing, and is told.
-- Only messages are waited for by nobody: who is locked is passed over.
-- Plan: message_pkey and lease_pkey once per acknowledgement; per lane a range of message_lane, one probe of lease_pkey per message looked at;
-- for partitioned ones message_partition and lease_partition. What is due: one probe each of lease_check and message_shelf.
with clock as materialized (
  select coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint) as now,
         set_config('lock_timeout', '50', true) as lock_timeout
), held as materialized (
  select m.uid, l.owner, l.fence, l.until, l.extend_max, l.request, l.partition
    from clock, unnest($2::uuid[], $3::uuid[], $4::bigint[]) as given (uid, owner, fence)
   -- `offset 0`: one probe per item, also if the planner believes that there are no leases.
   cross join lateral (select * from {schema}.lease l where l.uid = given.uid and l.owner = given.owner and l.fence = given.fence offset 0) l
    join {schema}.message m on m.uid = l.uid
   where l.until > clock.now and not m.superseded
     -- Whoever ends a lease writes its fence here, so a message that changed while it was being locked is seen to have changed.
     and m.end_fence < l.fence
     for no key update of m skip locked
), done as (
  update {schema}.message m
     set state = 2, dead = null, finished_at = clock.now, retry_at = null, deliveries = m.deliveries + 1, ready = false,
         shelf = 2,
         shelf_at = greatest(clock.now + 600000, case
           when not m.keyed then 0
           when m.keep_ms is null then m.accepted_at + m.window_ms
           else greatest(m.accepted_at + m.window_ms, clock.now + m.keep_ms) end),
         end_fence = held.fence, end_owner = held.owner, end_until = held.until, end_limit = held.extend_max, end_request = held.request,
         end_partition = held.partition, end_superseded = false, end_kind = 0, end_outcome = 0, end_dead = null, end_retry_at = null,
         topic = case when m.keep_finished then m.topic end, shard = case when m.keep_finished then m.shard end,
         partition = case when m.keep_finished then m.partition end, due = case when m.keep_finished then m.due end,
         expires = case when m.keep_finished then m.expires end, attributes = case when m.keep_finished then m.attributes end,
         payload = case when m.keep_finished then m.payload end, last_error = case when m.keep_finished then m.last_error end
    from held, clock
   where m.uid = held.uid
  returning m.uid
), released as (
  delete from {schema}.lease where uid = any(array(select uid from held))
), pending as materialized (
  select $14::boolean and (
           exists (select from {schema}.lease, clock where check_at <= clock.now)
           or exists (select from {schema}.message, clock where shelf = 1 and shelf_at <= clock.now)) as yes
), candidate as materialized (
  select lane.place, found.uid, row_number() over (partition by lane.place order by found.number) as turn
    from unnest($6::text[], $7::integer[], $8::bigint[]) with ordinality as lane (topic, shard, floor, place)
   cross join lateral (
     select m.uid, m.number
       from {schema}.message m, clock
      where m.namespace = $5 and m.topic = lane.topic and m.shard = lane.shard and m.number >= lane.floor and {claimable}
        and not (select yes from pending)
        -- What was not acknowledged is settled otherwise first.
        and (select count(*) from held) = cardinality($2)
      order by m.number
      limit $9
        for no key update of m skip locked) found
), wish as materialized (
  select *,
         $16::boolean and wish.request is not null
           and (select true from {schema}.lease l where l.request = wish.request and l.owner = wish.owner and l.namespace = $5 limit 1) is not null as repeated
    from unnest($10::uuid[], $11::uuid[], $12::bigint[], $13::bigint[], $15::bigint[]) with ordinality as wish (owner, request, lease_ms, wanted, had, place)
), claim as (
  select *, sum(wanted) over (order by place) as upto from wish where not repeated
), dealt as (
  select uid, row_number() over (order by turn, place) as place from candidate
), granted as (
  insert into {schema}.lease as l (uid, owner, request, place, fence, until, extend_max, check_at, namespace, in_flight, partition)
  select m.uid, claim.owner, claim.request, claim.had + dealt.place - (claim.upto - claim.wanted), (select {schema}.next_ticket()) * 16384 + dealt.place, clock.now + claim.lease_ms,
         case when $5 = 3 then clock.now + 10 * claim.lease_ms else 9223372036854775807 end, clock.now + claim.lease_ms, $5, true, m.partition
    from clock, dealt
    join claim on dealt.place > claim.upto - claim.wanted and dealt.place <= claim.upto
    join {schema}.message m on m.uid = dealt.uid
   order by dealt.place
  on conflict do nothing
  returning l.*
), delivered as (
  select claim.place as claim, dealt.place, granted.fence, granted.until, {columns}
    from granted
    join dealt on dealt.uid = granted.uid
    join claim on dealt.place > claim.upto - claim.wanted and dealt.place <= claim.upto
    join {schema}.message m on m.uid = granted.uid
)
select clock.now, pending.yes as pending,
       (select array_agg(uid) from done) as acked,
       (select coalesce(bool_or(partition is not null), false) from held) as freed,
       (select coalesce(max(turn), 0) from candidate) as turns,
       -- Requests that have something already, or that met themselves.
       (select array_agg(place) from wish
         where repeated
            or request is not null and (select count(*) from granted l where l.request = wish.request and l.owner = wish.owner)
               < (select count(*) from dealt join claim on dealt.place > claim.upto - claim.wanted and dealt.place <= claim.upto where claim.place = wish.place)) as repeated,
       -- Something is claimable, but somebody has it locked: worth a little wait.
       case when not pending.yes and not exists (select from candidate) and (select count(*) from held) = cardinality($2) then (
         select missed.uid
           from unnest($6::text[], $7::integer[], $8::bigint[]) as lane (topic, shard, floor)
          cross join lateral (
            select m.uid from {schema}.message m
             where m.namespace = $5 and m.topic = lane.topic and m.shard = lane.shard and m.number >= lane.floor and {claimable}
             order by m.number limit 1) missed
          limit 1) end as missed,
       delivered.*
  from clock cross join pending left join delivered on true
 order by delivered.place
