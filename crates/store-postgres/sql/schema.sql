-- Version 1 of the schema. `{schema}` is the schema's quoted name.
-- Times and durations are in milliseconds; 9223372036854775807 means "never". Texts are compared byte by byte.

create table {schema}.meta (
  name  text collate "C" primary key,
  value text collate "C" not null
);

-- One block of ids per statement: a message number, like a fence, is block * 16384 + its ordinal in the statement.
create sequence {schema}.id_block as bigint;

-- Gives roles that may only read and write tables access to the sequence.
create function {schema}.next_id_block() returns bigint
  language plpgsql volatile security definer
  as $oncebox$ begin return pg_catalog.nextval($sequence${schema}.id_block$sequence$); end $oncebox$;

-- Every message and every remembered key.
create table {schema}.message (
  number        bigint   not null,
  uid           uuid     not null,
  key_hash      uuid     not null,              -- of namespace, source and id
  namespace     smallint not null,              -- 0 inbox, 1 commands, 2 ledger, 3 mailbox
  state         smallint not null,              -- 0 seen, 1 processing, 2 done, 3 dead
  keyed         boolean  not null,              -- it holds its key: no later message has taken it
  ready         boolean  not null,              -- processing, with content, due, past its retry time; leased or not
  attempts      integer  not null default 0,
  deliveries    integer  not null default 0,    -- ended ones; a row in `lease` is one more
  redrives      integer  not null default 0,    -- by operators
  divergence    smallint not null,              -- 0 replace, 1 keep the first, 2 conflict
  keep_finished boolean  not null,
  superseded    boolean  not null default false, -- its content was replaced during the current lease
  end_superseded boolean not null default false,
  accepted_at   bigint   not null,
  last_seen_at  bigint   not null,
  window_ms     bigint   not null,
  end_fence     bigint   not null default 0,    -- `end_…`: the most recent lease that has ended
  -- 1 timer; retained: 2 done, 3 dead, 4 dead letter, 5 seen; removable: 13 dead, 14 dead letter, 15 seen
  maintenance_class smallint,
  shard         integer,
  -- Class 1: when the timer is due. 2 to 5: until when the row must be kept. 13 to 15: from when retention counts.
  maintenance_at bigint,
  due           bigint,
  expires       bigint,
  topic         text collate "C",               -- null: the message has no content
  partition     text collate "C",
  finished_at   bigint,
  retry_at      bigint,                         -- ignored while the message is leased
  keep_ms       bigint,                         -- null: only the window protects the key; -1: until finished, too
  end_until     bigint,
  end_limit     bigint,
  end_retry_at  bigint,
  attempts_max  integer,
  -- 0 failed, 1 exhausted, 2 expired, 3 cancelled, 4 integrity, 5 unhandled, 6 undecodable
  dead          smallint,
  end_kind      smallint,                       -- null lost, 0 ack, 1 abandon, 2 fail, 3 release
  end_outcome   smallint,                       -- 0 done, 1 superseded, 2 retrying, 3 released, 4 dead
  end_dead      smallint,
  end_owner     uuid,
  end_request   uuid,
  source        text collate "C" not null,
  id            text collate "C" not null,
  end_partition text collate "C",
  end_worker    text collate "C",
  correlation   text collate "C",
  causation     text collate "C",
  tenant        text collate "C",
  hash_name     text collate "C",
  last_error    text collate "C",
  hash          bytea,
  fingerprint   bytea,
  seal          bytea,                          -- the sender's seal: a timestamp (8 bytes) and a hash (32)
  attributes    jsonb,
  payload       bytea,
  constraint message_pkey primary key (uid)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- The message that holds a key. An entry may outlive its deduplication window.
create unique index message_key on {schema}.message (key_hash) where keyed;
-- Messages that held a key before. A newly accepted message holds its key and is not in this index.
create index message_former on {schema}.message (key_hash, accepted_at, uid) where not keyed;
-- Listings and counts.
create index message_number on {schema}.message (namespace, state, number);
-- Lanes. Finished messages are not in this index, however many there are.
create index message_lane on {schema}.message (namespace, topic, shard, number) where ready;
-- The rest of a lane: messages that are not due yet or wait for a retry.
create index message_waiting on {schema}.message (namespace, topic, shard) where state = 1 and not ready;
-- Dead messages by topic. `+ 0` keeps queries by topic off message_number, which mixes all topics.
create index message_dead on {schema}.message (namespace, topic) where state + 0 = 3;
-- Done messages whose content is kept, by topic; `+ 0` as above.
create index message_done on {schema}.message (namespace, topic) where state + 0 = 2 and topic is not null;
-- The first message of a partition.
create index message_partition on {schema}.message (namespace, partition, number) where partition is not null and state = 1;
-- Due timers, and rows that maintenance deletes.
create index message_maintenance on {schema}.message (maintenance_class, maintenance_at) where maintenance_class is not null;

-- Removable dead letters by topic, oldest first. `+ 0` keeps these queries off message_maintenance, which mixes all
-- topics; the planner would use it where it estimates few rows.
create index message_removable_dead_letter on {schema}.message (coalesce(topic, ''), maintenance_at, number) where maintenance_class + 0 = 14;

-- Leases that have not been ended. A lease is current before `until`.
create table {schema}.lease (
  uid        uuid     not null,
  owner      uuid     not null,
  request    uuid,
  ordinal    bigint   not null default 0,       -- position among the leases of that request
  fence      bigint   not null,
  until      bigint   not null,                 -- moved by heartbeats, so not indexed
  extend_max bigint   not null,
  attempts_max integer,                         -- the claim's limit on attempts
  worker     text collate "C",                  -- the name of the worker that claimed
  check_at   bigint   not null,                 -- not after `until`; maintenance moves it forward
  namespace  smallint not null,
  in_flight  boolean  not null,                 -- of a message; otherwise of a bare key
  partition  text collate "C",                  -- busy while this row exists
  constraint lease_pkey primary key (uid)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create index lease_check on {schema}.lease (check_at);
-- The same request, arriving twice concurrently, leases each message once.
create unique index lease_request on {schema}.lease (request, owner, namespace, ordinal) where request is not null;
create unique index lease_partition on {schema}.lease (namespace, partition) where partition is not null;

-- Messages that restarted processes delivered from a mailbox lane past deliveries that were outstanding before the
-- restart. These processes share the row of a lane and lock it while they claim. No other process reads or writes it.
create table {schema}.ahead (
  topic      text collate "C" not null,
  shard      integer  not null,
  numbers    bigint[] not null,                 -- of delivered messages
  fences     bigint[] not null,                 -- of their deliveries
  until      bigint   not null,                 -- the lane is not limited after this
  constraint ahead_pkey primary key (topic, shard)
);

-- The kinds of records, and what their records use. A write or deletion of a record locks the row of its kind first.
create table {schema}.record_kind (
  name         text collate "C" primary key,
  last_version bigint not null,                 -- of the last write
  records      bigint not null,                 -- including expired ones that are still there
  bytes        bigint not null                  -- of all these records
);

-- Records: small state beside messages.
create table {schema}.record (
  kind       text collate "C" not null,
  id         text collate "C" not null,
  version    bigint  not null,
  written_at bigint  not null,
  expires_at bigint  not null,
  bytes      integer not null,                  -- what it counts towards the limit of its kind
  value      bytea   not null,
  constraint record_pkey primary key (kind, id)
);

-- The records that were written first.
create unique index record_version on {schema}.record (kind, version);
create index record_expiry on {schema}.record (kind, expires_at) where expires_at < 9223372036854775807;
