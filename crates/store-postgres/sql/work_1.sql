-- Acknowledges deliveries, then claims, in one commit: `work.sql` calls it. A function, because a plan that was made while the tables were empty would
-- stay: its settings leave only plans that go by index, whatever the planner believes, and however the caller's connection is set. It decides nothing
-- that the core's machine would decide otherwise; what is not plain it leaves alone and says so. A newer version of it gets another name, so that
-- programs of two versions can share the tables.
-- Each step carries as little as it can, uids and places of rows: what a step costs before its first row grows with its columns. Messages are read whole
-- only once they are leased, by the places at which they are locked.
-- Plans: message_pkey and lease_pkey once per acknowledgement; per lane a range of message_lane, and one probe of lease_pkey per message looked at;
-- for partitioned ones message_partition and lease_partition. What time has brought: a range of lease_check and of message_shelf.
create function {schema}.work_1(
  given_now bigint,                 -- null: the server's time
  -- Acknowledged: each uid once, in order. Careful: what somebody else has locked is left alone; else it is waited for, which costs less if nobody has.
  uids uuid[], owners uuid[], fences bigint[], careful boolean,
  -- Claimed from the lanes of a namespace: not below these numbers, unless a partition becomes free; of each lane and in all so many at most; with no
  -- more payload bytes than this, but for the first message of a claim that has had none. A bound on bytes is for a single claim; null: none.
  space smallint, topics text[], shards integer[], floors bigint[], lane_max bigint, claim_max bigint, bytes_max bigint,
  -- Lanes that are held back after a restart give so many at most, up to a number, and above another only what is named; null, or no arrays at all,
  -- for the others.
  held_max bigint[], held_tops bigint[], held_free bigint[], again bigint[],
  -- Dealt to claims: in this order, beginning after so many; how many each has had already. No requests at all if none has one, nor limits of attempts, nor
  -- names of workers.
  claim_owners uuid[], requests uuid[], limits integer[], workers text[], leases bigint[], starts bigint[], had bigint[],
  -- Whether to look first for what time has brought since then; if there is something, nothing is claimed.
  look boolean, since bigint)
returns table (
  -- In one row, and of no meaning in others but for the time: acknowledged uids; whether partitions became free; whether time has brought something;
  -- claims that have leases already, so that nothing was claimed; the fences that were granted; lanes whose next message has too many bytes.
  now bigint, acked uuid[], freed boolean, pending boolean, repeated bigint[], granted bigint[], unfit integer[],
  -- What was dealt: from which lane, as which in all; without a fence of its number, somebody else was faster.
  lane integer, place integer,
  {delivery_table})
language plpgsql volatile
set lock_timeout = '50ms' set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $oncebox$
#variable_conflict use_column
declare
  instant bigint := coalesce(given_now, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
  unlocked uuid[];
  done uuid[] := '{}';
  emptied boolean := false;
  come boolean := false;
  known bigint[];
  -- What was found in the lanes: where it lies, what it is, of which partition and lane.
  tids tid[]; found_uids uuid[]; partitions text[]; lanes integer[];
  -- With a bound on bytes: the sizes of what was found, the places of what fits, their bytes.
  sizes bigint[]; fitting integer[]; bytes bigint := 0;
  closed integer[];
  dealt integer;
  ticket bigint;
  new_fences bigint[];
begin
  if cardinality(uids) > 0 then
    if careful then
      select coalesce(array_agg(free.uid), '{}') into unlocked
        from (select m.uid from {schema}.message m where m.uid = any (uids) for no key update skip locked) free;
    end if;
    with ended as (
      update {schema}.message m
         set state = 2, dead = null, finished_at = instant, retry_at = null, deliveries = m.deliveries + 1, ready = false,
             shelf = 2,
             shelf_at = greatest(instant + 600000, case
               when not m.keyed then 0
               when m.keep_ms is null then m.accepted_at + m.window_ms
               else greatest(m.accepted_at + m.window_ms, instant + m.keep_ms) end),
             end_fence = held.fence, end_owner = held.owner, end_until = held.until, end_limit = held.extend_max, end_request = held.request,
             end_partition = held.partition, end_worker = held.worker, end_superseded = false, end_kind = 0, end_outcome = 0, end_dead = null, end_retry_at = null,
             topic = case when m.keep_finished then m.topic end, shard = case when m.keep_finished then m.shard end,
             partition = case when m.keep_finished then m.partition end, due = case when m.keep_finished then m.due end,
             expires = case when m.keep_finished then m.expires end, attributes = case when m.keep_finished then m.attributes end,
             payload = case when m.keep_finished then m.payload end, seal = case when m.keep_finished then m.seal end, last_error = case when m.keep_finished then m.last_error end
        from generate_series(1, cardinality(uids)) as i
       cross join lateral (
         select l.uid, l.owner, l.fence, l.until, l.extend_max, l.request, l.partition, l.worker from {schema}.lease l
          where l.uid = uids[i] and l.owner = owners[i] and l.fence = fences[i] and l.until > instant offset 0) held
       -- An array, for with two columns the planner could walk all messages. Whoever ends a lease writes its fence here, so a message that was
       -- waited for is seen to have changed.
       where m.uid = any (array[held.uid]) and not m.superseded and m.end_fence < held.fence
         and (unlocked is null or m.uid = any (unlocked))
      returning m.uid, m.end_partition
    )
    select coalesce(array_agg(ended.uid), '{}'), coalesce(bool_or(ended.end_partition is not null), false) into done, emptied from ended;
    delete from {schema}.lease l where l.uid = any (done);
    if emptied then
      -- What waited for its partition is somewhere below.
      floors := array_fill(0::bigint, array[cardinality(floors)]);
    end if;
  end if;
  -- What was not acknowledged is settled otherwise before anything is claimed.
  if cardinality(done) = cardinality(uids) and claim_max > 0 then
    come := look and (
      exists (select from {schema}.lease l where l.check_at > since and l.check_at <= instant)
      or exists (select from {schema}.message m where m.shelf = 1 and m.shelf_at > since and m.shelf_at <= instant));
    if cardinality(requests) > 0 then
      select array_agg(wish.place) into known
        from unnest(claim_owners, requests, had) with ordinality as wish (owner, request, had, place)
       where wish.request is not null and wish.had = 0
         and (select true from {schema}.lease l where l.request = wish.request and l.owner = wish.owner and l.namespace = space limit 1);
    end if;
    if not come and known is null then
      select array_agg(found.tid), array_agg(found.uid), array_agg(found.partition), array_agg(lane) into tids, found_uids, partitions, lanes
        from generate_series(1, cardinality(topics)) as lane
       cross join lateral (
         select m.ctid as tid, m.uid, m.partition
           from {schema}.message m, (select instant as now) as clock
          where m.namespace = space and m.topic = topics[lane] and m.shard = shards[lane] and m.number >= floors[lane]
            and m.number <= coalesce(held_tops[lane], 9223372036854775807)
            and (held_free[lane] is null or m.number < held_free[lane] or m.number = any (again)) and {claimable}
          order by m.number
          limit coalesce(held_max[lane], lane_max)
            for no key update of m skip locked) found;
      if cardinality(topics) > 1 then
        -- Lanes take turns.
        select array_agg(turn.tid), array_agg(turn.uid), array_agg(turn.partition), array_agg(turn.lane) into tids, found_uids, partitions, lanes
          from (select tids[i] as tid, found_uids[i] as uid, partitions[i] as partition, lanes[i] as lane
                  from generate_series(1, cardinality(tids)) as i
                 order by row_number() over (partition by lanes[i] order by i), lanes[i]) turn;
      end if;
      if bytes_max is not null and tids is not null then
        -- A lane whose next message does not fit is passed over from then on.
        sizes := array(select octet_length(m.payload)::bigint
                         from generate_series(1, cardinality(tids)) as i join {schema}.message m on m.ctid = tids[i] order by i);
        for i in 1 .. cardinality(tids) loop
          exit when cardinality(fitting) = claim_max;
          continue when lanes[i] = any (closed);
          if (had[1] = 0 and fitting is null) or bytes + sizes[i] <= bytes_max then
            fitting := fitting || i;
            bytes := bytes + sizes[i];
          else
            closed := closed || lanes[i];
          end if;
        end loop;
        select array_agg(tids[place] order by k), array_agg(found_uids[place] order by k), array_agg(partitions[place] order by k),
               array_agg(lanes[place] order by k)
          into tids, found_uids, partitions, lanes
          from unnest(fitting) with ordinality as fits (place, k);
      end if;
    end if;
  end if;
  if tids is null then
    now := instant; acked := done; freed := emptied; pending := come; repeated := known; unfit := closed;
    return next;
    return;
  end if;
  dealt := least(claim_max, cardinality(tids));
  ticket := {schema}.next_ticket() * 16384;
  with granted as (
    insert into {schema}.lease as l (uid, owner, request, place, fence, until, extend_max, attempts_max, worker, check_at, namespace, in_flight, partition)
    select found_uids[slot.i], claim_owners[slot.claim], requests[slot.claim], had[slot.claim] + slot.i - starts[slot.claim],
           ticket + slot.i, instant + leases[slot.claim],
           case when space = 3 then instant + 10 * leases[slot.claim] else 9223372036854775807 end, limits[slot.claim], workers[slot.claim],
           instant + leases[slot.claim],
           space, true, partitions[slot.i]
      from (select i, width_bucket((i - 1)::bigint, starts) as claim from generate_series(1, dealt) as i offset 0) slot
    on conflict do nothing
    returning l.fence
  )
  select array_agg(granted.fence) into new_fences from granted;
  return query
    select instant, case when i = 1 then done end, emptied, false, null::bigint[], case when i = 1 then new_fences end, closed,
           lanes[i], i, {delivery}
      from generate_series(1, dealt) as i
      join {schema}.message m on m.ctid = tids[i];
end $oncebox$;
