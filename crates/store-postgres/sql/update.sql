-- Writes messages that are locked, as they stand now; one array per column. Plan: message_pkey once per message.
update {schema}.message m
   set number = given.number, last_seen_at = given.last_seen_at, finished_at = given.finished_at, retry_at = given.retry_at,
       due = given.due, expires = given.expires, window_ms = given.window_ms, keep_ms = given.keep_ms, shelf_at = given.shelf_at,
       end_fence = given.end_fence, end_until = given.end_until, end_limit = given.end_limit, end_retry_at = given.end_retry_at,
       attempts = given.attempts, deliveries = given.deliveries, attempts_max = given.attempts_max, shard = given.shard, state = given.state,
       dead = given.dead, divergence = given.divergence, shelf = given.shelf, end_kind = given.end_kind, end_outcome = given.end_outcome,
       end_dead = given.end_dead, keyed = given.keyed, keep_finished = given.keep_finished, ready = given.ready, superseded = given.superseded,
       end_superseded = given.end_superseded, end_owner = given.end_owner, end_request = given.end_request, topic = given.topic,
       partition = given.partition, end_partition = given.end_partition, correlation = given.correlation, causation = given.causation,
       tenant = given.tenant, hash_name = given.hash_name, last_error = given.last_error, hash = given.hash, fingerprint = given.fingerprint,
       attributes = given.attributes::jsonb, payload = given.payload
  from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[],
              $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], $16::integer[], $17::integer[], $18::integer[], $19::integer[],
              $20::smallint[], $21::smallint[], $22::smallint[], $23::smallint[], $24::smallint[], $25::smallint[], $26::smallint[], $27::smallint[],
              $28::boolean[], $29::boolean[], $30::boolean[], $31::boolean[], $32::boolean[], $33::uuid[], $34::uuid[], $35::uuid[],
              $36::text[], $37::text[], $38::text[], $39::text[], $40::text[], $41::text[], $42::text[], $43::text[], $44::text[], $45::text[],
              $46::bytea[], $47::bytea[], $48::text[], $49::bytea[])
    as given (uid, number, accepted_at, last_seen_at, finished_at, retry_at, due, expires, window_ms, keep_ms,
              shelf_at, end_fence, end_until, end_limit, end_retry_at, attempts, deliveries, attempts_max, shard,
              namespace, state, dead, divergence, shelf, end_kind, end_outcome, end_dead,
              keyed, keep_finished, ready, superseded, end_superseded, key_hash, end_owner, end_request,
              source, id, topic, partition, end_partition, correlation, causation, tenant, hash_name, last_error,
              hash, fingerprint, attributes, payload)
 where m.uid = any(array[given.uid])
