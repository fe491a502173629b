-- Inserts messages whose keys and uids are free and that have not expired; returns each with its number. Messages
-- that are not returned were not touched.
-- $1 the time (null: the server's), then one array per column, which `sql.rs` turns into `input`, ordered by key, so
-- that two statements that insert the same keys do not deadlock; an array whose items are all null may be empty. For
-- a single message, values instead of arrays.
-- `clock` provides the time and an id block, and sets the lock timeout: the statement waits at most 50 ms for
-- another transaction's uncommitted key.
-- Plan: no scan except of the arrays; per row one insert into message_pkey, message_key, message_number,
-- message_lane.
insert into {schema}.message as m (number, accepted_at, last_seen_at, state, maintenance_class, maintenance_at, keyed, ready, {input_names})
select clock.id_block + input.ordinal, clock.now, clock.now, 1,
       case when input.due > clock.now or input.expires is not null then 1 end,
       case when input.due > clock.now then least(input.due, input.expires) else input.expires end,
       true, coalesce(input.due <= clock.now, true), {input_values}
  from {clock}, {input}
 where input.expires is null or input.expires > clock.now
on conflict do nothing
returning m.accepted_at, m.number, m.uid
