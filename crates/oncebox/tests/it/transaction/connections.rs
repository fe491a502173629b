//! Transactional handlers and the connections that they need.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use oncebox::postgres::{PostgresStore, Tx};
use oncebox::telemetry::names;
use oncebox::{
    Context, ErrorKind, Message, MessageState, Oncebox, State, Worker, message::Key, operator::Snapshot,
    worker::Route,
};
use oncebox_testkit::servers::Postgres;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::sync::Notify;

use crate::fixture;
use crate::timed::{until, within};

/// An inbox with few connections, and one with enough connections on the same tables, to inspect it.
struct Constrained {
    oncebox: Oncebox,
    pool: PgPool,
    inspector: Oncebox,
}

/// Handlers can have `transactions` open; one more connection serves all other calls. Acquiring a connection times out
/// soon.
async fn constrained(transactions: u32) -> Constrained {
    let (store, schema) = fixture::postgres_with_schema(None).await;
    let server = Postgres::shared().unwrap();
    let pool = PgPoolOptions::new()
        .max_connections(transactions + 1)
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy(&server.url())
        .unwrap();
    let few = Arc::new(PostgresStore::new(pool.clone(), &schema));
    Constrained {
        oncebox: Oncebox::builder().on_postgres(few).unwrap(),
        pool,
        inspector: Oncebox::builder().on_postgres(store).unwrap(),
    }
}

impl Constrained {
    /// A transaction of the application on the small pool. On a slow machine, a connection takes longer than the pool
    /// waits for it.
    async fn begin(&self) -> sqlx::Transaction<'static, sqlx::Postgres> {
        within("the application's transaction", async {
            loop {
                if let Ok(begun) = self.pool.begin().await {
                    return begun;
                }
            }
        })
        .await
    }

    async fn enqueue(&self, id: &str) {
        self.inspector.inbox().enqueue(Message::new("payment", "shop", id)).await.unwrap();
    }

    async fn show(&self, id: &str) -> Snapshot {
        let key = Key::inbox("shop", id).unwrap();
        self.inspector.operator("test").show(key).await.unwrap().unwrap()
    }

    async fn is_done(&self, id: &str) -> bool {
        self.show(id).await.state == MessageState::Done
    }

    /// Whether health reports that transactions cannot begin.
    async fn begin_fails(&self) -> bool {
        let health = self.oncebox.health().await;
        health.findings.iter().any(|finding| finding.text.contains("consecutive begin calls failed"))
    }
}

/// A missing connection is not a failure of the message.
/// Holds: RULE-07.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_waits_for_its_transaction_spends_no_attempt() {
    let shop = constrained(1).await;
    shop.enqueue("1").await;
    // The application has every connection of the pool.
    let taken = [shop.begin().await, shop.begin().await];
    let worker = Worker::new(&shop.oncebox).on("payment", async |_: Tx| {}).start().unwrap();
    until("health reports that no transaction can begin", async || shop.begin_fails().await).await;
    let waiting = shop.show("1").await;
    assert_eq!((waiting.attempts, waiting.deliveries), (0, 1), "{waiting:?}");
    drop(taken);
    until("it is handled", async || shop.is_done("1").await).await;
    let done = shop.show("1").await;
    assert_eq!((done.attempts, done.deliveries), (0, 1), "{done:?}");
    assert!(!shop.begin_fails().await, "the failure is over");
    worker.stop().await.unwrap();
}

/// If the transaction cannot begin for the length of a lease, the message is released to other workers.
/// Holds: RULE-07.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_message_whose_transaction_cannot_begin_is_released_without_an_attempt() {
    let shop = constrained(1).await;
    shop.enqueue("1").await;
    let taken = [shop.begin().await, shop.begin().await];
    let worker = Worker::new(&shop.oncebox).on("payment", async |_: Tx| {}).lease(Duration::from_secs(3));
    let worker = worker.start().unwrap();
    until("it is released and delivered again", async || shop.show("1").await.deliveries >= 2).await;
    assert_eq!(shop.show("1").await.attempts, 0);
    drop(taken);
    until("it is handled", async || shop.is_done("1").await).await;
    assert_eq!(shop.show("1").await.attempts, 0);
    worker.stop().await.unwrap();
}

/// Holds: RULE-05.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn transactions_do_not_starve_the_heartbeats_of_their_leases() {
    let shop = constrained(1).await;
    shop.enqueue("1").await;
    let (started, resume) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let handler = async |_: Tx, State((started, resume)): State<(Arc<Notify>, Arc<Notify>)>| {
        started.notify_one();
        resume.notified().await;
    };
    let worker =
        Worker::new(&shop.oncebox).with_state((started.clone(), resume.clone())).on("payment", handler);
    let worker = worker.lease(Duration::from_secs(6)).start().unwrap();
    within("the handler starts", started.notified()).await;
    // The handler holds one connection of the pool, and the application the other.
    let taken = shop.begin().await;
    let granted = shop.show("1").await.lease().unwrap().until;
    until("the lease is extended", async || {
        let lease = shop.show("1").await.lease().copied();
        lease.is_none_or(|lease| lease.until > granted)
    })
    .await;
    assert_eq!(shop.show("1").await.deliveries, 1, "the lease was not lost");
    resume.notify_one();
    until("it is handled", async || shop.is_done("1").await).await;
    drop(taken);
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.lost), (1, 0), "{stopped:?}");
}

/// A concurrency that exceeds the connections is rejected with both numbers; the default fits the connections.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn transactional_concurrency_above_the_connection_limit_is_rejected_at_start() {
    let shop = constrained(2).await;
    let worker = || Worker::new(&shop.oncebox).on("payment", async |_: Tx| {});
    let refused = worker().concurrency(5).start().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Invalid);
    assert_eq!(
        refused.to_string(),
        "5 handlers would run in transactions at once, but the store's connections allow only 2: lower `concurrency` of the worker \
         or of these topics, or give the store 3 more connections (`connections=` in its URL, or a larger pool)"
    );
    worker().concurrency(2).run_until_idle().await.unwrap();
    // Handlers without a transaction need no connection of their own.
    let limited_route = Route::new("payment", async |_: Tx| {}).concurrency(2);
    let wide = Worker::new(&shop.oncebox).route(limited_route).on("other", async || {}).concurrency(50);
    wide.run_until_idle().await.unwrap();

    let url = format!("{}?connections=3&ensure=yes&schema=three", Postgres::shared().unwrap().url());
    let three = Oncebox::open(&url).await.unwrap();
    let refused = Worker::new(&three).on("payment", async |_: Tx| {}).start().err().unwrap();
    assert!(refused.to_string().contains("the store's connections allow only 0"), "{refused}");
}

/// Several workers of a process share the available transactions.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn workers_share_the_transactions_that_the_store_allows() {
    let shop = constrained(2).await;
    for id in 0..12 {
        shop.enqueue(&id.to_string()).await;
    }
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let worker = || {
        let state = (running.clone(), most.clone());
        let handler = async |_: Tx, State((running, most)): State<(Arc<AtomicUsize>, Arc<AtomicUsize>)>| {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::SeqCst);
        };
        Worker::new(&shop.oncebox).with_state(state).on("payment", handler).run_until_idle()
    };
    let (one, two, three) = tokio::join!(worker(), worker(), worker());
    let handled = one.unwrap().handled + two.unwrap().handled + three.unwrap().handled;
    assert_eq!(handled, 12);
    assert!((1..=2).contains(&most.load(Ordering::SeqCst)), "{most:?} concurrent transactions");
    for id in 0..12 {
        assert_eq!(shop.show(&id.to_string()).await.attempts, 0);
    }
}

/// A delivery that is settled in its handler's transaction counts as one, not two.
#[test]
fn a_delivery_settled_in_its_transaction_is_counted_once() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    metrics::with_local_recorder(&recorder, || {
        let runtime = crate::timed::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let shop = constrained(2).await;
            for id in ["1", "2", "3"] {
                shop.enqueue(id).await;
            }
            let handler = async |_: Tx, context: Context| match context.id() {
                "3" => Err("no"),
                _ => Ok(()),
            };
            let stopped = Worker::new(&shop.oncebox).on("payment", handler).run_until_idle().await.unwrap();
            assert_eq!((stopped.handled, stopped.retrying), (2, 1), "{stopped:?}");
        });
    });
    let counted = snapshotter.snapshot().into_vec();
    let settled = |outcome: &str| {
        let found = counted.iter().find(|(key, ..)| {
            let labelled = |label: &metrics::Label| (label.key(), label.value()) == ("outcome", outcome);
            key.key().name() == names::SETTLED && key.key().labels().any(labelled)
        });
        found.map(|(.., value)| value)
    };
    assert_eq!(settled("done"), Some(&DebugValue::Counter(2)));
    assert_eq!(settled("retrying"), Some(&DebugValue::Counter(1)));
    for outcome in ["dead", "released", "superseded", "lost"] {
        assert_eq!(settled(outcome), Some(&DebugValue::Counter(0)), "{outcome}");
    }
}
