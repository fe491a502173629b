//! The plans that PostgreSQL uses for the statements on large tables: it logs the plan of every statement that runs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, Batch, Budget, Claim, DeadLetters, Key, MessageQuery, Namespace, NewMessage, Order, Owner,
    PageSize, Payload, ReadyTopics, Retention, Scope, Settled, Shard, Span, Store, StoreExt, Topic,
    TopicQuery, Topics,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore, Schema};
use oncebox_testkit::servers::Postgres;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

/// 100,000 ready messages in ten topics, and as many finished ones.
const FILL: &str = "
insert into oncebox.message (uid, number, accepted_at, last_seen_at, finished_at, window_ms, keep_ms, attempts_max, shard, namespace, state,
  divergence, maintenance_class, maintenance_at, keyed, keep_finished, ready, key_hash, source, id, topic, payload, fingerprint)
select gen_random_uuid(), n, 1, 1, case when n % 2 = 0 then 1 end, 0, 1000000000000, 10, 0, 0, case when n % 2 = 0 then 2 else 1 end,
  0, case when n % 2 = 0 then 2 end, case when n % 2 = 0 then 1000000000000 + n end, true, false, n % 2 = 1, gen_random_uuid(), 'fill', n::text,
  case when n % 2 = 1 then 'topic' || n / 2 % 10 end, case when n % 2 = 1 then 'x'::bytea end, sha256('x')
from generate_series(1, 200000) n;
select setval('oncebox.id_block', 100);
";

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("topic3").unwrap(), Payload::new("{}").unwrap())
}

fn claim(topics: Topics) -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(Duration::from_secs(30)).unwrap());
    Claim { topics, ..Claim::new(Namespace::Inbox, owner, lease, Batch::new(10).unwrap()) }
}

/// A budget that keeps few dead letters, and only for an hour.
fn trimming() -> Budget {
    let default = Retention { keep: Some(Duration::from_secs(60 * 60)), messages_max: Some(9_900) };
    let retention = DeadLetters { default, topics: BTreeMap::new() };
    Budget { dead_letters: Some(Arc::new(retention)), ..Budget::new(100) }
}

/// The plans of all statements that run, from the server's log.
struct Explained {
    server: Postgres,
    read: usize,
    /// Whether plans are checked.
    strict: bool,
}

impl Explained {
    /// The plans logged since the last call.
    fn new_plans(&mut self) -> String {
        let log = std::fs::read_to_string(self.server.log_file()).unwrap();
        let new = log[self.read..].to_owned();
        self.read = log.len();
        new
    }

    /// Checks that the statements that just ran read messages by these indexes, and never scanned all of them.
    fn check(&mut self, what: &str, indexes: &[&str]) {
        let plans = self.new_plans();
        if !self.strict {
            return;
        }
        assert!(plans.contains("Query Text"), "{what}: no plan was logged");
        for (line, next) in plans.lines().zip(plans.lines().skip(1)) {
            assert!(!line.contains("Seq Scan on message"), "{what} reads all messages:\n{plans}");
            // An index scan without a condition reads all entries, too. Counting reads the leases, of which there are
            // few.
            let scans = line.contains("using message_")
                || line.contains("using lease_pkey") && !what.starts_with("counts");
            if scans && line.contains("Scan") {
                assert!(next.contains("Index Cond"), "{what} scans a whole index:\n{plans}");
            }
        }
        for index in indexes {
            assert!(plans.contains(index), "{what} does not use {index}:\n{plans}");
        }
        // The lane must be read in index order: a bitmap scan reads and sorts the whole lane.
        assert!(!plans.contains("Bitmap Index Scan on message_lane"), "{what} reads a whole lane:\n{plans}");
    }
}

/// A server that logs all plans, with empty tables.
async fn explaining() -> (Postgres, PgPool) {
    explaining_with(&[]).await
}

/// Like [`explaining`], with more settings.
async fn explaining_with(more: &[(&str, &str)]) -> (Postgres, PgPool) {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_nested_statements", "on"),
    ];
    let settings: Vec<_> = settings.iter().chain(more).copied().collect();
    let server = Postgres::with(&settings).expect("a private PostgreSQL starts");
    let pool = PgPoolOptions::new().max_connections(2).connect(&server.url()).await.unwrap();
    Schema::default().ensure(&pool).await.unwrap();
    (server, pool)
}

/// A store with one connection, which keeps every plan; the tables are analyzed only by the test.
async fn open_without_autovacuum(server: &Postgres, pool: &PgPool) -> PostgresStore {
    pool.execute("alter table oncebox.message set (autovacuum_enabled = off)").await.unwrap();
    pool.execute("alter table oncebox.lease set (autovacuum_enabled = off)").await.unwrap();
    let mut options = PostgresOptions::default();
    options.connections = 1;
    PostgresStore::open(&server.url(), options).await.unwrap()
}

/// Plans that were made on empty tables also serve large ones, without an analyze in between.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_made_on_empty_tables_use_indexes() {
    let (server, pool) = explaining().await;
    let store = open_without_autovacuum(&server, &pool).await;
    pool.execute("vacuum analyze").await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let few = ["first", "second"].map(message);
    let many: Vec<_> = (0..30).map(|id| message(&format!("many{id}"))).collect();
    store.accept(&few).await.unwrap();
    store.accept(&many).await.unwrap();
    explained.strict = false;
    run_every_operation(&store, &mut explained, 0).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    let _ = explained.new_plans();
    explained.strict = true;
    run_every_operation(&store, &mut explained, 1).await;
}

/// The same for plans that were made after everything had been deleted, while the tables still had their pages: the
/// planner assumes that they stay empty, whatever their size.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_made_after_everything_was_deleted_use_indexes() {
    let (server, pool) = explaining().await;
    let store = open_without_autovacuum(&server, &pool).await;
    let mut explained = Explained { server, read: 0, strict: false };
    let many: Vec<_> = (0..3_000).map(|id| message(&format!("many{id}"))).collect();
    store.accept(&many).await.unwrap();
    run_every_operation(&store, &mut explained, 0).await;
    let mut snapshot = pool.begin().await.unwrap();
    snapshot.execute("set transaction isolation level repeatable read").await.unwrap();
    snapshot.execute("select from oncebox.message").await.unwrap();
    pool.execute("delete from oncebox.message").await.unwrap();
    pool.execute("delete from oncebox.lease").await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    pool.execute("analyze oncebox.lease").await.unwrap();
    let some: Vec<_> = (0..30).map(|id| message(&format!("some{id}"))).collect();
    store.accept(&some).await.unwrap();
    run_every_operation(&store, &mut explained, 1).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    let _ = explained.new_plans();
    explained.strict = true;
    run_every_operation(&store, &mut explained, 2).await;
}

/// No operation reads all messages.
/// Holds: IBX-122, IBX-125, RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_reads_all_messages() {
    let (server, pool) = explaining().await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), PostgresOptions::default()).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let _ = explained.new_plans();

    // Often enough that generic plans are made, too.
    for round in 0..8 {
        run_every_operation(&store, &mut explained, round).await;
    }
}

/// Runs every operation once.
async fn run_every_operation(store: &PostgresStore, explained: &mut Explained, round: u32) {
    let topics = Topics::only([Topic::new("topic3").unwrap(), Topic::new("topic4").unwrap()]).unwrap();
    let id = |name: &str| format!("{name}{round}");
    store.accept(&[message(&id("a")), message(&id("b"))]).await.unwrap();
    explained.check("accept", &[]);
    store.accept(&[message(&id("a"))]).await.unwrap();
    explained.check("a duplicate", &["message_key", "message_pkey"]);

    let claimed = store.claim(&claim(topics)).await.unwrap();
    assert_eq!(claimed.len(), 10);
    explained.check("claim", &["message_lane"]);
    let worked = store.work(&[claimed[0].ack()], &[claim(Topics::ALL)]).await.unwrap();
    assert_eq!((worked.settled[0], worked.deliveries[0].len()), (Settled::Done, 10));
    explained.check("ack and claim", &["message_pkey", "message_lane"]);
    store.settle(&[claimed[1].abandon(Span::delay(Duration::from_millis(1)).unwrap(), None)]).await.unwrap();
    explained.check("abandon", &["message_pkey"]);
    store.extend(&[claimed[2].extend(Span::lease(Duration::from_secs(60)).unwrap())]).await.unwrap();
    explained.check("extend", &["lease_pkey"]);

    store.maintain(Budget::new(100)).await.unwrap();
    explained.check("maintenance", &["message_maintenance"]);
    store.maintain(trimming()).await.unwrap();
    explained.check("maintenance of dead letters", &["message_removable_dead_letter"]);
    let query = MessageQuery { size: PageSize::new(10).unwrap(), ..MessageQuery::all(Namespace::Inbox) };
    assert_eq!(store.page(&query).await.unwrap().messages.len(), 10);
    explained.check("page", &["message_number"]);
    store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.unwrap();
    explained.check("ready topics", &["message_lane"]);
    for namespace in [Namespace::Inbox, Namespace::Mailbox] {
        for query in
            [TopicQuery::first(namespace), TopicQuery::only(namespace, Topic::new("topic3").unwrap())]
        {
            store.topic_counts(&query).await.unwrap();
            explained.check("counts of topics", &["message_lane", "message_waiting", "message_dead"]);
        }
    }
    store.counts(&Scope::all(Namespace::Inbox)).await.unwrap();
    explained.check("counts", &["message_number", "message_lane"]);
    for shard in [None, Some(Shard(0))] {
        store
            .counts(&Scope { shard, ..Scope::topic(Namespace::Inbox, Topic::new("topic3").unwrap()) })
            .await
            .unwrap();
        let indexes = ["message_lane", "message_waiting", "message_done", "message_dead"];
        explained.check("counts of a topic", &indexes);
    }
    store.get(&[claimed[3].uid.into(), Key::inbox("shop", id("a")).unwrap().into()]).await.unwrap();
    explained.check("get", &["message_key", "message_pkey"]);
    store.with_key(&message(&id("a")).key, PageSize::MAX).await.unwrap();
    explained.check("lookup by key", &["message_key", "message_former", "message_pkey"]);
    let cancel = Order { target: claimed[4].uid.into(), action: Action::Cancel };
    store.operate(&[cancel]).await.unwrap();
    explained.check("operate", &["message_pkey"]);
}

/// 100,000 messages that are due later and as many that are kept for longer, and 20,000 leases that end later. Of each kind,
/// three are due now.
const LATER: &str = "
insert into oncebox.message (uid, number, accepted_at, last_seen_at, finished_at, expires, window_ms, keep_ms, attempts_max, shard, namespace, state,
  divergence, maintenance_class, maintenance_at, keyed, keep_finished, ready, key_hash, source, id, topic, payload, fingerprint)
select gen_random_uuid(), n, 1, 1, case when n % 2 = 0 then 1 end, case when n % 2 = 1 then due.at end, 0, 1000000000000, 10, 0, 0,
  case when n % 2 = 0 then 2 else 1 end, 0, case when n % 2 = 0 then 2 else 1 end, due.at, true, false, n % 2 = 1, gen_random_uuid(), 'later',
  n::text, case when n % 2 = 1 then 'topic' || n / 2 % 10 end, case when n % 2 = 1 then 'x'::bytea end, sha256('x')
from generate_series(1, 200000) n, lateral (select case when n <= 6 then 1000 + n else 4000000000000 + n end as at) due;
insert into oncebox.lease (uid, owner, ordinal, fence, until, extend_max, check_at, namespace, in_flight)
select gen_random_uuid(), gen_random_uuid(), 1, n, 4000000000000 + n, 9223372036854775807, 4000000000000 + n, 0, true
from generate_series(1, 20000) n;
select setval('oncebox.id_block', 100);
";

/// The largest number of rows that a step may read and leave out.
const REMOVED_MAX: u64 = 1_000;

/// What is due later, however much it is, is not read to find what is due now.
/// Holds: RULE-20, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_later_is_not_read() {
    for made_on_empty_tables in [false, true] {
        let (server, pool) = explaining_with(&[("auto_explain.log_analyze", "on")]).await;
        let store = open_without_autovacuum(&server, &pool).await;
        let mut explained = Explained { server, read: 0, strict: false };
        if made_on_empty_tables {
            for round in 0..8 {
                maintain_and_read(&store, round).await;
            }
        }
        pool.execute(sqlx::raw_sql(LATER)).await.unwrap();
        if !made_on_empty_tables {
            pool.execute("analyze").await.unwrap();
        }
        let _ = explained.new_plans();
        for round in 8..10 {
            maintain_and_read(&store, round).await;
            let plans = explained.new_plans();
            for line in plans.lines().filter(|line| line.contains("Rows Removed by")) {
                let removed: u64 = line.rsplit(' ').next().and_then(|count| count.parse().ok()).expect(line);
                assert!(
                    removed <= REMOVED_MAX,
                    "{line}, plans made on empty tables: {made_on_empty_tables}\n{plans}"
                );
            }
        }
    }
}

/// Runs what looks for due timers, and what deletes.
async fn maintain_and_read(store: &PostgresStore, round: u32) {
    store.accept(&[message(&format!("later{round}"))]).await.unwrap();
    let claimed = store.claim(&claim(Topics::ALL)).await.unwrap();
    store.settle(&[claimed[0].ack()]).await.unwrap();
    store.maintain(Budget::new(100)).await.unwrap();
    let query = MessageQuery { size: PageSize::new(10).unwrap(), ..MessageQuery::all(Namespace::Inbox) };
    store.page(&query).await.unwrap();
    store.counts(&Scope::topic(Namespace::Inbox, Topic::new("topic3").unwrap())).await.unwrap();
}

/// 100,000 dead letters in ten topics, none of them old, and as many other Dead messages.
const DEAD: &str = "
insert into oncebox.message (uid, number, accepted_at, last_seen_at, finished_at, window_ms, attempts_max, shard, namespace, state, dead,
  divergence, maintenance_class, maintenance_at, keyed, keep_finished, ready, key_hash, source, id, topic, payload, fingerprint)
select gen_random_uuid(), n, 1, 1, 4000000000000 + n, 0, 10, 0, case when n % 2 = 0 then 3 else 0 end, 3, 0,
  2, case when n % 2 = 0 then 14 else 13 end, 4000000000000 + n, true, false, false, gen_random_uuid(), 'dead', n::text,
  'topic' || n / 2 % 10, 'x'::bytea, sha256('x')
from generate_series(1, 200000) n;
";

/// The oldest dead letters of a topic are found by an index of their own, in bounded numbers, however many dead
/// letters and Dead messages there are.
/// Holds: MBX-P-9, RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_beyond_their_limit_are_found_by_index() {
    let (server, pool) = explaining().await;
    pool.execute(sqlx::raw_sql(DEAD)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), PostgresOptions::default()).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let _ = explained.new_plans();
    // 10 topics of 10,000, of which 9,900 stay.
    for _ in 0..10 {
        assert_eq!(store.maintain(trimming()).await.unwrap().dead_letters_forgotten, 100);
        explained.check("maintenance of dead letters", &["message_removable_dead_letter", "message_pkey"]);
    }
    for _ in 0..2 {
        assert_eq!(store.maintain(trimming()).await.unwrap().dead_letters_forgotten, 0);
        explained.check("maintenance without dead letters to delete", &["message_removable_dead_letter"]);
    }
}

/// Counting one topic reads no message of another; for a topic without messages, nothing is read at all.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counting_a_topic_reads_no_other_topic() {
    let (server, pool) = explaining_with(&[("auto_explain.log_analyze", "on")]).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    pool.execute(sqlx::raw_sql(DEAD)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), PostgresOptions::default()).await.unwrap();
    store.claim(&claim(Topics::ALL)).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    for namespace in [Namespace::Inbox, Namespace::Mailbox] {
        // After the first count no timers are due, so only the counting statement reads messages.
        store.topic_counts(&TopicQuery::first(namespace)).await.unwrap();
        let _ = explained.new_plans();
        for name in ["topic", "topic30", "z"] {
            let query = TopicQuery::only(namespace, Topic::new(name).unwrap());
            assert_eq!(store.topic_counts(&query).await.unwrap().topics, []);
            let plans = explained.new_plans();
            let counting = plans.split("Query Text").find(|plan| plan.contains("lane_topic")).expect(&plans);
            for line in counting.lines().filter(|line| line.contains(" on message m")) {
                let read_nothing = ["(never executed)", " rows=0 loops", " rows=0.00 loops"];
                assert!(
                    read_nothing.iter().any(|end| line.contains(end)),
                    "{name} reads other topics:\n{counting}"
                );
            }
            assert!(!counting.contains("Rows Removed"), "{name} reads other topics:\n{counting}");
        }
    }
}
