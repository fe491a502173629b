//! What PostgreSQL does with the statements when there is much: it explains every one that really runs, in its log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Action, Batch, Budget, Claim, DeadLetters, Key, Namespace, NewMessage, Order, Owner, PageSize, Payload,
    Query, ReadyTopics, Retention, Scope, Settled, Shard, Span, Store, StoreExt, Topic, TopicQuery, Topics,
};
use oncebox_store_postgres::{Options, PostgresStore, Schema};
use oncebox_testkit::servers::Postgres;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Executor, PgPool};

/// 100,000 messages that are ready, in ten topics, and as many that are finished.
const FILL: &str = "
insert into oncebox.message (uid, number, accepted_at, last_seen_at, finished_at, window_ms, keep_ms, attempts_max, shard, namespace, state,
  divergence, shelf, shelf_at, keyed, keep_finished, ready, key_hash, source, id, topic, payload, fingerprint)
select gen_random_uuid(), n, 1, 1, case when n % 2 = 0 then 1 end, 0, 1000000000000, 10, 0, 0, case when n % 2 = 0 then 2 else 1 end,
  0, case when n % 2 = 0 then 2 end, case when n % 2 = 0 then 1000000000000 + n end, true, false, n % 2 = 1, gen_random_uuid(), 'fill', n::text,
  case when n % 2 = 1 then 'topic' || n / 2 % 10 end, case when n % 2 = 1 then 'x'::bytea end, sha256('x')
from generate_series(1, 200000) n;
select setval('oncebox.ticket', 100);
";

fn message(id: &str) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    NewMessage::new(key, Topic::new("topic3").unwrap(), Payload::new("{}").unwrap())
}

fn claim(topics: Topics) -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(Duration::from_secs(30)).unwrap());
    Claim { topics, ..Claim::new(Namespace::Inbox, owner, lease, Batch::new(10).unwrap()) }
}

/// A budget that keeps few dead letters, and not for long.
fn trimming() -> Budget {
    let default = Retention { keep: Some(Duration::from_secs(60 * 60)), messages_max: Some(9_900) };
    let letters = DeadLetters { default, topics: BTreeMap::new() };
    Budget { dead_letters: Some(Arc::new(letters)), ..Budget::new(100) }
}

/// The plans of everything that runs, from its log.
struct Explained {
    server: Postgres,
    read: usize,
    /// Plans are checked.
    strict: bool,
}

impl Explained {
    /// What was explained since the last look.
    fn since(&mut self) -> String {
        let log = std::fs::read_to_string(self.server.log_file()).unwrap();
        let new = log[self.read..].to_owned();
        self.read = log.len();
        new
    }

    /// Checks that what just ran read messages by these indexes, and never from one end to the other.
    fn check(&mut self, what: &str, indexes: &[&str]) {
        let plans = self.since();
        if !self.strict {
            return;
        }
        assert!(plans.contains("Query Text"), "{what}: nothing was explained");
        for (line, next) in plans.lines().zip(plans.lines().skip(1)) {
            assert!(!line.contains("Seq Scan on message"), "{what} reads all messages:\n{plans}");
            // An index that is not asked for something is read from one end to the other, too. Counting reads the leases, which are few.
            let walks = line.contains("using message_")
                || line.contains("using lease_pkey") && !what.starts_with("counts");
            if walks && line.contains("Scan") {
                assert!(next.contains("Index Cond"), "{what} walks an index:\n{plans}");
            }
        }
        for index in indexes {
            assert!(plans.contains(index), "{what} does not use {index}:\n{plans}");
        }
        // In its order, that is: what is sorted first reads the whole lane.
        assert!(!plans.contains("Bitmap Index Scan on message_lane"), "{what} reads a whole lane:\n{plans}");
    }
}

/// A server that explains everything, with empty tables.
async fn explaining() -> (Postgres, PgPool) {
    explaining_with(&[]).await
}

/// The same, with more settings.
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

/// A store with one connection, on which every plan stays: nobody analyses its tables unless the test does.
async fn unattended(server: &Postgres, pool: &PgPool) -> PostgresStore {
    pool.execute("alter table oncebox.message set (autovacuum_enabled = off)").await.unwrap();
    pool.execute("alter table oncebox.lease set (autovacuum_enabled = off)").await.unwrap();
    let mut options = Options::default();
    options.connections = 1;
    PostgresStore::open(&server.url(), options).await.unwrap()
}

/// A plan that was made when there was nothing serves as well when there is much: nobody analyses the tables in between.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_from_before_there_was_anything_go_by_index() {
    let (server, pool) = explaining().await;
    let store = unattended(&server, &pool).await;
    pool.execute("vacuum analyze").await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let few = ["first", "second"].map(message);
    let many: Vec<_> = (0..30).map(|id| message(&format!("many{id}"))).collect();
    store.accept(&few).await.unwrap();
    store.accept(&many).await.unwrap();
    explained.strict = false;
    ask_everything(&store, &mut explained, 0).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    let _ = explained.since();
    explained.strict = true;
    ask_everything(&store, &mut explained, 1).await;
}

/// So does a plan that was made after everything had been forgotten, while the tables still had their pages: the planner believed that they
/// stay empty, whatever their size.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_from_after_everything_was_forgotten_go_by_index() {
    let (server, pool) = explaining().await;
    let store = unattended(&server, &pool).await;
    let mut explained = Explained { server, read: 0, strict: false };
    let many: Vec<_> = (0..3_000).map(|id| message(&format!("many{id}"))).collect();
    store.accept(&many).await.unwrap();
    ask_everything(&store, &mut explained, 0).await;
    let mut snapshot = pool.begin().await.unwrap();
    snapshot.execute("set transaction isolation level repeatable read").await.unwrap();
    snapshot.execute("select from oncebox.message").await.unwrap();
    pool.execute("delete from oncebox.message").await.unwrap();
    pool.execute("delete from oncebox.lease").await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    pool.execute("analyze oncebox.lease").await.unwrap();
    let some: Vec<_> = (0..30).map(|id| message(&format!("some{id}"))).collect();
    store.accept(&some).await.unwrap();
    ask_everything(&store, &mut explained, 1).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    let _ = explained.since();
    explained.strict = true;
    ask_everything(&store, &mut explained, 2).await;
}

/// Whatever is asked, nobody reads all messages for it.
/// Holds: IBX-122, IBX-125, RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_statement_reads_all_messages() {
    let (server, pool) = explaining().await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), Options::default()).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let _ = explained.since();

    // Often enough that plans for any arguments are made, too.
    for round in 0..8 {
        ask_everything(&store, &mut explained, round).await;
    }
}

/// Everything that can be asked, once.
async fn ask_everything(store: &PostgresStore, explained: &mut Explained, round: u32) {
    let topics = Topics::only([Topic::new("topic3").unwrap(), Topic::new("topic4").unwrap()]).unwrap();
    let id = |name: &str| format!("{name}{round}");
    store.accept(&[message(&id("a")), message(&id("b"))]).await.unwrap();
    explained.check("accept", &[]);
    store.accept(&[message(&id("a"))]).await.unwrap();
    explained.check("a duplicate", &["message_key", "message_pkey"]);

    let taken = store.claim(&claim(topics)).await.unwrap();
    assert_eq!(taken.len(), 10);
    explained.check("claim", &["message_lane"]);
    let worked = store.work(&[taken[0].ack()], &[claim(Topics::ALL)]).await.unwrap();
    assert_eq!((worked.settled[0], worked.deliveries[0].len()), (Settled::Done, 10));
    explained.check("ack and claim", &["message_pkey", "message_lane"]);
    store.settle(&[taken[1].abandon(Span::delay(Duration::from_millis(1)).unwrap(), None)]).await.unwrap();
    explained.check("abandon", &["message_pkey"]);
    store.extend(&[taken[2].extend(Span::lease(Duration::from_secs(60)).unwrap())]).await.unwrap();
    explained.check("extend", &["lease_pkey"]);

    store.upkeep(Budget::new(100)).await.unwrap();
    explained.check("upkeep", &["message_shelf"]);
    store.upkeep(trimming()).await.unwrap();
    explained.check("upkeep of dead letters", &["message_letter"]);
    let query = Query { size: PageSize::new(10).unwrap(), ..Query::all(Namespace::Inbox) };
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
        let indices = ["message_lane", "message_waiting", "message_done", "message_dead"];
        explained.check("counts of a topic", &indices);
    }
    store.get(&[taken[3].uid.into(), Key::inbox("shop", id("a")).unwrap().into()]).await.unwrap();
    explained.check("get", &["message_key", "message_pkey"]);
    store.with_key(&message(&id("a")).key, PageSize::MAX).await.unwrap();
    explained.check("look-up by key", &["message_key", "message_former", "message_pkey"]);
    let cancel = Order { target: taken[4].uid.into(), action: Action::Cancel };
    store.operate(&[cancel]).await.unwrap();
    explained.check("operate", &["message_pkey"]);
}

/// 100,000 dead letters in ten topics, of which none is old, and as many other Dead messages.
const DEAD: &str = "
insert into oncebox.message (uid, number, accepted_at, last_seen_at, finished_at, window_ms, attempts_max, shard, namespace, state, dead,
  divergence, shelf, shelf_at, keyed, keep_finished, ready, key_hash, source, id, topic, payload, fingerprint)
select gen_random_uuid(), n, 1, 1, 4000000000000 + n, 0, 10, 0, case when n % 2 = 0 then 3 else 0 end, 3, 0,
  2, case when n % 2 = 0 then 14 else 13 end, 4000000000000 + n, true, false, false, gen_random_uuid(), 'dead', n::text,
  'topic' || n / 2 % 10, 'x'::bytea, sha256('x')
from generate_series(1, 200000) n;
";

/// The oldest letters of a topic are found by its own index, a bounded number of them, however many letters and Dead messages there are.
/// Holds: MBX-P-9, RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_beyond_their_number_are_found_by_index() {
    let (server, pool) = explaining().await;
    pool.execute(sqlx::raw_sql(DEAD)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), Options::default()).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    let _ = explained.since();
    // 10 topics of 10,000, of which 9,900 stay.
    for _ in 0..10 {
        assert_eq!(store.upkeep(trimming()).await.unwrap().dead_letters_forgotten, 100);
        explained.check("upkeep of dead letters", &["message_letter", "message_pkey"]);
    }
    for _ in 0..2 {
        assert_eq!(store.upkeep(trimming()).await.unwrap().dead_letters_forgotten, 0);
        explained.check("upkeep that finds no dead letter to forget", &["message_letter"]);
    }
}

/// To count one topic, no message of another is read: for one that has nothing, nothing is read at all.
/// Holds: RULE-20.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_topic_is_counted_without_its_neighbours() {
    let (server, pool) = explaining_with(&[("auto_explain.log_analyze", "on")]).await;
    pool.execute(sqlx::raw_sql(FILL)).await.unwrap();
    pool.execute(sqlx::raw_sql(DEAD)).await.unwrap();
    pool.execute("analyze oncebox.message").await.unwrap();
    let store = PostgresStore::open(&server.url(), Options::default()).await.unwrap();
    store.claim(&claim(Topics::ALL)).await.unwrap();
    let mut explained = Explained { server, read: 0, strict: true };
    for namespace in [Namespace::Inbox, Namespace::Mailbox] {
        // Once something is counted, nothing is left to be read but the counts.
        store.topic_counts(&TopicQuery::first(namespace)).await.unwrap();
        let _ = explained.since();
        for name in ["topic", "topic30", "z"] {
            let query = TopicQuery::only(namespace, Topic::new(name).unwrap());
            assert_eq!(store.topic_counts(&query).await.unwrap().topics, []);
            let plans = explained.since();
            let counting = plans.split("Query Text").find(|plan| plan.contains("lane_topic")).expect(&plans);
            for line in counting.lines().filter(|line| line.contains(" on message m")) {
                let read_nothing = ["(never executed)", " rows=0 loops", " rows=0.00 loops"];
                assert!(
                    read_nothing.iter().any(|end| line.contains(end)),
                    "{name} reads others:\n{counting}"
                );
            }
            assert!(!counting.contains("Rows Removed"), "{name} reads others:\n{counting}");
        }
    }
}
