-- Version 1 of the schema. `{schema}` is the schema's quoted name.
-- Instants and durations are milliseconds; 9223372036854775807 stands for "never". Texts are compared byte by byte.

create table {schema}.meta (
  name  text collate "C" primary key,
  value text collate "C" not null
);

-- One ticket per statement: a number, and likewise a fence, is ticket * 16384 + its place in the statement.
create sequence {schema}.ticket as bigint;

-- Lends the sequence to roles that may only read and write tables.
create function {schema}.next_ticket() returns bigint
  language plpgsql volatile security definer
  as $oncebox$ begin return pg_catalog.nextval($ticket${schema}.ticket$ticket$); end $oncebox$;

-- Every message and every key that is remembered.
create table {schema}.message (
  number        bigint   not null,
  uid           uuid     not null,
  key_hash      uuid     not null,              -- of namespace, source and id
  namespace     smallint not null,              -- 0 inbox, 1 commands, 2 ledger, 3 mailbox
  state         smallint not null,              -- 0 seen, 1 processing, 2 done, 3 dead
  keyed         boolean  not null,              -- no later message has taken its key
  ready         boolean  not null,              -- processing, with content, due, and past its retry time; leased or not
  attempts      integer  not null default 0,
  deliveries    integer  not null default 0,    -- that have ended; a row in `lease` is one more
  redrives      integer  not null default 0,    -- by operators
  divergence    smallint not null,              -- 0 replace, 1 keep the first, 2 conflict
  keep_finished boolean  not null,
  superseded    boolean  not null default false, -- its content was replaced under the lease that it has now
  end_superseded boolean not null default false,
  accepted_at   bigint   not null,
  last_seen_at  bigint   not null,
  window_ms     bigint   not null,
  end_fence     bigint   not null default 0,    -- `end_…`: the newest lease that has ended
  shelf         smallint,                       -- 1 waits for time; bound: 2 done, 3 dead, 4 dead letter, 5 seen; free: 13, 14, 15
  shard         integer,
  shelf_at      bigint,
  due           bigint,
  expires       bigint,
  topic         text collate "C",               -- null: it has no content
  partition     text collate "C",
  finished_at   bigint,
  retry_at      bigint,                         -- of no meaning while it is leased
  keep_ms       bigint,                         -- null: the window alone holds the key; -1: the message too, until it is finished
  end_until     bigint,
  end_limit     bigint,
  end_retry_at  bigint,
  attempts_max  integer,
  dead          smallint,                       -- 0 failed, 1 exhausted, 2 expired, 3 cancelled, 4 integrity, 5 unhandled, 6 undecodable
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
  seal          bytea,                          -- what the sender froze: a moment (8 bytes) and a hash (32)
  attributes    jsonb,
  payload       bytea,
  constraint message_pkey primary key (uid)
) with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.1);

-- Who has a key. An entry may outlive its hold.
create unique index message_key on {schema}.message (key_hash) where keyed;
-- Who had a key before. What is taken in has its key, and is not in it.
create index message_former on {schema}.message (key_hash, accepted_at, uid) where not keyed;
-- Listings and counts.
create index message_number on {schema}.message (namespace, state, number);
-- Lanes: what is finished is not in it, however much that is.
create index message_lane on {schema}.message (namespace, topic, shard, number) where ready;
-- The rest of a lane: not due yet, or to be retried.
create index message_waiting on {schema}.message (namespace, topic, shard) where state = 1 and not ready;
-- Dead messages by topic. `+ 0`: what asks for a topic cannot go by message_number, which has all topics together.
create index message_dead on {schema}.message (namespace, topic) where state + 0 = 3;
-- Done messages whose content is kept, by topic; likewise.
create index message_done on {schema}.message (namespace, topic) where state + 0 = 2 and topic is not null;
-- Who is first in a partition.
create index message_partition on {schema}.message (namespace, partition, number) where partition is not null and state = 1;
-- What time changes next, and what upkeep forgets.
create index message_shelf on {schema}.message (shelf, shelf_at) where shelf is not null;

-- Dead letters that need not be kept any longer, topic by topic, the oldest first. `+ 0`: what asks for them cannot go by message_shelf, which has
-- all topics together; the planner would, where it believes that there are few.
create index message_letter on {schema}.message (coalesce(topic, ''), shelf_at, number) where shelf + 0 = 14;

-- Who holds what. A row is a lease that nobody has ended yet; it is current before `until`.
create table {schema}.lease (
  uid        uuid     not null,
  owner      uuid     not null,
  request    uuid,
  place      bigint   not null default 0,       -- in what that request got
  fence      bigint   not null,
  until      bigint   not null,                 -- moved by heartbeats, so in no index
  extend_max bigint   not null,
  attempts_max integer,                         -- the claimer's limit of attempts
  worker     text collate "C",                  -- what the claimer calls itself
  check_at   bigint   not null,                 -- not after `until`; upkeep moves it on
  namespace  smallint not null,
  in_flight  boolean  not null,                 -- on a message; else on a bare key
  partition  text collate "C",                  -- busy while this row is there
  constraint lease_pkey primary key (uid)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

create index lease_check on {schema}.lease (check_at);
-- The same request, arriving twice at once, gets everything once.
create unique index lease_request on {schema}.lease (request, owner, namespace, place) where request is not null;
create unique index lease_partition on {schema}.lease (namespace, partition) where partition is not null;

-- What processes that began to serve gave out of a mailbox lane past deliveries that were out before: they share it, and hold the row while they claim. No
-- other process reads or writes it.
create table {schema}.ahead (
  topic      text collate "C" not null,
  shard      integer  not null,
  numbers    bigint[] not null,                 -- of messages that were given out
  fences     bigint[] not null,                 -- of their deliveries
  until      bigint   not null,                 -- nothing holds the lane back after this
  constraint ahead_pkey primary key (topic, shard)
);
