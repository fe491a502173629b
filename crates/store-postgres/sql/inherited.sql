-- The deliveries of the mailbox that are out, 100,000 at most: asked for once, when a process first claims from it. $1 the time (null: the server's).
-- Plan: the leases, which are few; message_pkey once per lease.
select l.uid, l.fence, l.extend_max, m.number, m.topic, m.shard
  from {schema}.lease l
  join {schema}.message m on m.uid = any(array[l.uid])
 where l.namespace = 3 and l.in_flight and m.topic is not null
   and l.until > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
 limit 100000
