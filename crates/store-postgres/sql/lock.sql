-- Locks messages by uid ($1) and by key ($2 hashes). Waits at most 50 ms if the caller fails fast.
-- An array instead of a join: a message whose lock was waited for is evaluated again, and behind a join with
-- distinct rows it would be missing.
-- Plan: message_key once per key, message_pkey once per message.
with waiting as materialized (select set_config('lock_timeout', '50', true) as lock_timeout)
select {columns}, octet_length(m.payload) as payload_bytes
  from waiting, {schema}.message m
 where m.uid = any(array(
   select unnest($1::uuid[])
   union all
   select k.uid from {schema}.message k where k.key_hash = any($2) and k.keyed))
 order by m.uid
   for update of m
