-- The outstanding deliveries of the mailbox, at most 100,000: read once, when a process first claims from the
-- mailbox. $1 the time (null: the server's).
-- Plan: the leases, of which there are few; message_pkey once per lease.
select l.uid, l.fence, l.extend_max, m.number, m.topic, m.shard
  from {schema}.lease l
  join {schema}.message m on m.uid = any(array[l.uid])
 where l.namespace = 3 and l.in_flight and m.topic is not null
   and l.until > coalesce($1, floor(extract(epoch from clock_timestamp()) * 1000)::bigint)
 limit 100000
