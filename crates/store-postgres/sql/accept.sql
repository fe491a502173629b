-- Takes in messages whose keys and uids are free and that have not expired yet; says which, each with its number. What is not told was not touched.
-- $1 the time (null: the server's), then one array per column, which `sql.rs` turns into `given`: in the order of their keys, so that two who want
-- the same keys do not wait for each other; an array whose items are all null may be empty. For a single message, values in place of arrays.
-- `clock` is the time, a ticket, and that it waits at most 50 ms for somebody else's uncommitted key.
-- Plan: no scan but of the arrays; per row one insert into message_pkey, message_key, message_number, message_lane.
insert into {schema}.message as m (number, accepted_at, last_seen_at, state, shelf, shelf_at, keyed, ready, {given_names})
select clock.ticket + given.place, clock.now, clock.now, 1,
       case when given.due > clock.now or given.expires is not null then 1 end,
       case when given.due > clock.now then least(given.due, given.expires) else given.expires end,
       true, coalesce(given.due <= clock.now, true), {given_values}
  from {clock}, {given}
 where given.expires is null or given.expires > clock.now
on conflict do nothing
returning m.accepted_at, m.number, m.uid
