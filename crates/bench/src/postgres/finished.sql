-- {count} acknowledged messages, with keys that are held for one more hour.
insert into {schema}.message
  (uid, number, accepted_at, last_seen_at, finished_at, window_ms, keep_ms, maintenance_at, end_fence, end_until, end_limit,
   deliveries, namespace, state, divergence, maintenance_class, end_kind, end_outcome, keyed, keep_finished, ready,
   key_hash, end_owner, source, id, fingerprint)
select (lpad(to_hex(clock.now + n / 100), 12, '0') || '7' || substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15))::uuid,
       n, clock.now, clock.now, clock.now, 0, 0, clock.now + 3600000, n, clock.now + 30000, 9223372036854775807,
       1, 0, 2, 1, 2, 0, 0, true, false, false,
       md5('key' || n)::uuid, '00000000-0000-0000-0000-000000000001', 'payments', 'old_' || md5(n::text), decode(repeat(md5(n::text), 2), 'hex')
  from (select floor(extract(epoch from clock_timestamp()) * 1000)::bigint - 86400000 as now) clock, generate_series(1, {count}) n
