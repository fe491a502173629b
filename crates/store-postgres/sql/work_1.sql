-- Acknowledges deliveries, then claims, in one commit; called by `work.sql`. A function, because a plan that was made
-- while the tables were empty would be kept: the function's settings allow only index plans, whatever the planner
-- estimates and however the caller's connection is configured. The function decides nothing that the core's state
-- machine would decide differently; it leaves complicated cases alone and reports them. A newer version of it gets
-- another name, so that programs of two versions can share the tables.
-- Each step carries only uids and row locations (ctid), because the startup cost of a step grows with its columns.
-- Whole messages are read only after they are leased, by the ctids under which they are locked.
-- Plans: message_pkey and lease_pkey once per acknowledgement; per lane a range of message_lane, and one probe of
-- lease_pkey per scanned message; message_partition and lease_partition for partitioned messages. Due timers: a range
-- of lease_check and of message_maintenance.
create function {schema}.work_1(
  now_ms bigint,                    -- null: the server's time
  -- Acknowledgements: each uid once, in order. `skip_locked`: messages that another transaction has locked are skipped;
  -- otherwise the function waits for them, which is cheaper if there are none.
  uids uuid[], owners uuid[], fences bigint[], skip_locked boolean,
  -- The lanes to claim from: not below the numbers `floors`, unless a partition becomes free; at most `lane_max`
  -- messages per lane and `claim_max` in all; at most `bytes_max` payload bytes, except that the first message of a
  -- claim that has received none may be larger. `bytes_max` applies to a single claim; null means no limit.
  claim_namespace smallint, topics text[], shards integer[], floors bigint[], lane_max bigint, claim_max bigint, bytes_max bigint,
  -- Limits on mailbox lanes after a restart: how many messages at most, up to which number, and from which number on
  -- only the `redeliverable` ones; null, or empty arrays, for lanes without limits.
  reorder_messages_max bigint[], reorder_number_max bigint[], reorder_unrestricted_below bigint[], redeliverable bigint[],
  -- The claims that receive the messages, in this order: claim i starts after `starts[i]` messages and has already
  -- received `received[i]`. `requests`, `attempt_limits` and `workers` are empty if no claim has one.
  claim_owners uuid[], requests uuid[], attempt_limits integer[], workers text[], lease_ms bigint[], starts bigint[], received bigint[],
  -- Whether to check first for timers that became due after `timers_since`; if there are any, nothing is claimed.
  check_timers boolean, timers_since bigint)
returns table (
  -- Set in one row and meaningless in the others, except for the time: acknowledged uids; whether partitions became
  -- free; whether timers are due; claims that already have leases, so that nothing was claimed; the granted fences;
  -- lanes whose next message has too many bytes.
  now bigint, acked uuid[], partition_freed boolean, timers_due boolean, repeated bigint[], granted bigint[], unfit integer[],
  -- A claimed message: its lane and its ordinal among all. If no fence with its ordinal was granted, another process
  -- was faster.
  lane integer, ordinal integer,
  {delivery_table})
language plpgsql volatile
set lock_timeout = '50ms' set plan_cache_mode = force_generic_plan set jit = off
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $oncebox$
#variable_conflict use_column
declare
  instant bigint := coalesce(now_ms, floor(extract(epoch from clock_timestamp()) * 1000)::bigint);
  unlocked uuid[];
  done uuid[] := '{}';
  any_freed boolean := false;
  any_due boolean := false;
  repeats bigint[];
  -- The messages found in the lanes: row location, uid, partition and lane.
  tids tid[]; found_uids uuid[]; partitions text[]; lanes integer[];
  -- With a limit on bytes: the sizes of the messages found, the indexes of those that fit, and their total bytes.
  sizes bigint[]; fitting integer[]; bytes bigint := 0;
  unfit_lanes integer[];
  claimed integer;
  id_block bigint;
  new_fences bigint[];
begin
  if cardinality(uids) > 0 then
    if skip_locked then
      select coalesce(array_agg(free.uid), '{}') into unlocked
        from (select m.uid from {schema}.message m where m.uid = any (uids) for no key update skip locked) free;
    end if;
    with ended as (
      update {schema}.message m
         set state = 2, dead = null, finished_at = instant, retry_at = null, deliveries = m.deliveries + 1, ready = false,
             maintenance_class = 2,
             maintenance_at = greatest(instant + 600000, case
               when not m.keyed then 0
               when m.keep_ms is null then m.accepted_at + least(m.window_ms, 9223372036854775807 - m.accepted_at)
               else greatest(m.accepted_at + least(m.window_ms, 9223372036854775807 - m.accepted_at),
                             instant + least(m.keep_ms, 9223372036854775807 - instant)) end),
             end_fence = leased.fence, end_owner = leased.owner, end_until = leased.until, end_limit = leased.extend_max, end_request = leased.request,
             end_partition = leased.partition, end_worker = leased.worker, end_superseded = false, end_kind = 0, end_outcome = 0, end_dead = null, end_retry_at = null,
             topic = case when m.keep_finished then m.topic end, shard = case when m.keep_finished then m.shard end,
             partition = case when m.keep_finished then m.partition end, due = case when m.keep_finished then m.due end,
             expires = case when m.keep_finished then m.expires end, attributes = case when m.keep_finished then m.attributes end,
             payload = case when m.keep_finished then m.payload end, seal = case when m.keep_finished then m.seal end, last_error = case when m.keep_finished then m.last_error end
        from generate_series(1, cardinality(uids)) as i
       cross join lateral (
         select l.uid, l.owner, l.fence, l.until, l.extend_max, l.request, l.partition, l.worker from {schema}.lease l
          where l.uid = uids[i] and l.owner = owners[i] and l.fence = fences[i] and l.until > instant offset 0) leased
       -- An array, because with a join of two columns the planner could scan all messages. Every transaction that
       -- ends a lease writes its fence to `end_fence`, so a message that was waited for shows that its lease has
       -- ended.
       where m.uid = any (array[leased.uid]) and not m.superseded and m.end_fence < leased.fence
         and (unlocked is null or m.uid = any (unlocked))
      returning m.uid, m.end_partition
    )
    select coalesce(array_agg(ended.uid), '{}'), coalesce(bool_or(ended.end_partition is not null), false) into done, any_freed from ended;
    delete from {schema}.lease l where l.uid = any (done);
    if any_freed then
      -- Messages that waited for their partition may be anywhere below.
      floors := array_fill(0::bigint, array[cardinality(floors)]);
    end if;
  end if;
  -- If something was not acknowledged, the caller settles it on the slow path before anything is claimed.
  if cardinality(done) = cardinality(uids) and claim_max > 0 then
    any_due := check_timers and (
      exists (select from {schema}.lease l where l.check_at > timers_since and l.check_at <= instant)
      or exists (select from {schema}.message m where m.maintenance_class = 1 and m.maintenance_at > timers_since and m.maintenance_at <= instant));
    if cardinality(requests) > 0 then
      select array_agg(claim.ordinal) into repeats
        from unnest(claim_owners, requests, received) with ordinality as claim (owner, request, received, ordinal)
       where claim.request is not null and claim.received = 0
         and (select true from {schema}.lease l where l.request = claim.request and l.owner = claim.owner and l.namespace = claim_namespace limit 1);
    end if;
    if not any_due and repeats is null then
      select array_agg(found.tid), array_agg(found.uid), array_agg(found.partition), array_agg(lane) into tids, found_uids, partitions, lanes
        from generate_series(1, cardinality(topics)) as lane
       cross join lateral (
         select m.ctid as tid, m.uid, m.partition
           from {schema}.message m, (select instant as now) as clock
          where m.namespace = claim_namespace and m.topic = topics[lane] and m.shard = shards[lane] and m.number >= floors[lane]
            and m.number <= coalesce(reorder_number_max[lane], 9223372036854775807)
            and (reorder_unrestricted_below[lane] is null or m.number < reorder_unrestricted_below[lane] or m.number = any (redeliverable))
            and {claimable}
          order by m.number
          limit coalesce(reorder_messages_max[lane], lane_max)
            for no key update of m skip locked) found;
      if cardinality(topics) > 1 then
        -- Interleave the lanes.
        select array_agg(item.tid), array_agg(item.uid), array_agg(item.partition), array_agg(item.lane) into tids, found_uids, partitions, lanes
          from (select tids[i] as tid, found_uids[i] as uid, partitions[i] as partition, lanes[i] as lane
                  from generate_series(1, cardinality(tids)) as i
                 order by row_number() over (partition by lanes[i] order by i), lanes[i]) item;
      end if;
      if bytes_max is not null and tids is not null then
        -- A lane whose next message does not fit is skipped from then on.
        sizes := array(select octet_length(m.payload)::bigint
                         from generate_series(1, cardinality(tids)) as i join {schema}.message m on m.ctid = tids[i] order by i);
        for i in 1 .. cardinality(tids) loop
          exit when cardinality(fitting) = claim_max;
          continue when lanes[i] = any (unfit_lanes);
          if (received[1] = 0 and fitting is null) or bytes + sizes[i] <= bytes_max then
            fitting := fitting || i;
            bytes := bytes + sizes[i];
          else
            unfit_lanes := unfit_lanes || lanes[i];
          end if;
        end loop;
        select array_agg(tids[item] order by k), array_agg(found_uids[item] order by k), array_agg(partitions[item] order by k),
               array_agg(lanes[item] order by k)
          into tids, found_uids, partitions, lanes
          from unnest(fitting) with ordinality as fits (item, k);
      end if;
    end if;
  end if;
  if tids is null then
    now := instant; acked := done; partition_freed := any_freed; timers_due := any_due; repeated := repeats; unfit := unfit_lanes;
    return next;
    return;
  end if;
  claimed := least(claim_max, cardinality(tids));
  id_block := {schema}.next_id_block() * 16384;
  with granted as (
    insert into {schema}.lease as l (uid, owner, request, ordinal, fence, until, extend_max, attempts_max, worker, check_at, namespace, in_flight, partition)
    select found_uids[slot.i], claim_owners[slot.claim], requests[slot.claim], received[slot.claim] + slot.i - starts[slot.claim],
           id_block + slot.i, instant + lease_ms[slot.claim],
           case when claim_namespace = 3 then instant + 10 * lease_ms[slot.claim] else 9223372036854775807 end, attempt_limits[slot.claim], workers[slot.claim],
           instant + lease_ms[slot.claim],
           claim_namespace, true, partitions[slot.i]
      from (select i, width_bucket((i - 1)::bigint, starts) as claim from generate_series(1, claimed) as i offset 0) slot
    on conflict do nothing
    returning l.fence
  )
  select array_agg(granted.fence) into new_fences from granted;
  return query
    select instant, case when i = 1 then done end, any_freed, false, null::bigint[], case when i = 1 then new_fences end, unfit_lanes,
           lanes[i], i, {delivery}
      from generate_series(1, claimed) as i
      join {schema}.message m on m.ctid = tids[i];
end $oncebox$;
