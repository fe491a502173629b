//! Fresh inboxes: on every store with a manual clock, or in memory with the runtime's paused clock.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::postgres::{self, PostgresStore, Schema};
use oncebox::{
    Message, Oncebox, OnceboxBuilder, Timestamp,
    message::Key,
    operator::Snapshot,
    store::{Clock, Store},
};
use oncebox_core::StoreExt;
use oncebox_store_embedded::EmbeddedStore;
use oncebox_store_memory::MemoryStore;
use oncebox_system::SystemRng;
use oncebox_testkit::faulty::{FaultPlan, FaultyStore};
use oncebox_testkit::servers::Postgres;
use oncebox_testkit::timed;
use oncebox_testkit::{ManualClock, SplitMix};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tokio::time::Instant;

/// An inbox under test.
pub(crate) struct Fixture {
    pub(crate) oncebox: Oncebox,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
}

impl Fixture {
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Enqueues a message of source `test`, with its id as payload.
    pub(crate) async fn enqueue(&self, topic: &str, id: &str) {
        enqueue(&self.oncebox, topic, id).await;
    }

    /// The stored message of source `test` with this id.
    pub(crate) async fn show(&self, id: &str) -> Snapshot {
        show(&*self.store, id).await
    }
}

async fn enqueue(oncebox: &Oncebox, topic: &str, id: &str) {
    let message = Message::new(topic, "test", id).text(id);
    let receipt = oncebox.inbox().enqueue(message).await.expect("the store has capacity");
    assert_eq!(receipt.outcome, oncebox::EnqueueOutcome::Accepted);
}

async fn show(store: &dyn Store, id: &str) -> Snapshot {
    let found = store.get_one(&key(id).into()).await.expect("the store answers");
    found.unwrap_or_else(|| panic!("test/{id} is known"))
}

pub(crate) fn key(id: &str) -> Key {
    Key::inbox("test", id).expect("in bounds")
}

/// Runs the test on every store.
pub(crate) fn on_every_store(test: impl AsyncFn(Fixture)) {
    on_every_store_with(|builder| builder, test);
}

/// Runs the test on every store, with settings.
pub(crate) fn on_every_store_with(
    set: impl Fn(OnceboxBuilder) -> OnceboxBuilder,
    test: impl AsyncFn(Fixture),
) {
    for name in ["memory", "embedded", "postgres"] {
        let runtime = timed::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime starts").block_on(async {
            let clock = Arc::new(ManualClock::default());
            let directory = Directory::new();
            let store: Arc<dyn Store> = match name {
                "memory" => Arc::new(memory(clock.clone())),
                "postgres" => postgres(Some(clock.clone())).await.0,
                _ => {
                    let mut options = oncebox_store_embedded::EmbeddedOptions::default();
                    options.segment_bytes = 1 << 20;
                    options.clock = Some(clock.clone());
                    Arc::new(EmbeddedStore::open(&directory.0, &options).expect("a new directory opens"))
                }
            };
            eprintln!("on {name}");
            let builder = Oncebox::builder().name(name).clock(clock.clone());
            let oncebox = set(builder).on(store.clone()).expect("the settings are valid");
            test(Fixture { oncebox, clock, store }).await;
        });
    }
}

/// A store with its own tables on the shared database server, and a pool to inspect it.
pub(crate) async fn postgres(clock: Option<Arc<dyn Clock>>) -> (Arc<PostgresStore>, PgPool) {
    postgres_in(&unused_schema(), clock).await
}

/// A store with its tables in this schema, which no other test uses, and a pool to inspect it.
pub(crate) async fn postgres_in(schema: &str, clock: Option<Arc<dyn Clock>>) -> (Arc<PostgresStore>, PgPool) {
    let pool = pool().await;
    let options = tables(&pool, schema, clock).await;
    (Arc::new(PostgresStore::new(pool.clone(), &options)), pool)
}

/// A store with its own tables, and the options to open another store on them.
pub(crate) async fn postgres_with_schema(
    clock: Option<Arc<dyn Clock>>,
) -> (Arc<PostgresStore>, postgres::PostgresOptions) {
    let pool = pool().await;
    let options = tables(&pool, &unused_schema(), clock).await;
    (Arc::new(PostgresStore::new(pool, &options)), options)
}

/// Two inboxes on the same tables, like two processes.
pub(crate) async fn two_on_postgres() -> [Oncebox; 2] {
    let pool = pool().await;
    let options = tables(&pool, &unused_schema(), None).await;
    [(); 2].map(|()| {
        let store = Arc::new(PostgresStore::new(pool.clone(), &options));
        Oncebox::builder().on_postgres(store).expect("the settings are valid")
    })
}

fn unused_schema() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("case{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

async fn pool() -> PgPool {
    let server = Postgres::shared().expect("a private PostgreSQL starts");
    PgPoolOptions::new().max_connections(6).connect(&server.url()).await.expect("the server answers")
}

async fn tables(pool: &PgPool, schema: &str, clock: Option<Arc<dyn Clock>>) -> postgres::PostgresOptions {
    let mut options = postgres::PostgresOptions::default();
    options.schema = Schema::new(schema).expect("a short name");
    options.clock = clock;
    options.schema.ensure(pool).await.expect("the tables are created");
    options
}

fn memory(clock: Arc<dyn Clock>) -> MemoryStore {
    let options = oncebox_store_memory::MemoryOptions::default();
    MemoryStore::with(options, clock, Box::new(SystemRng::default()))
}

/// A directory that is deleted on drop.
pub(crate) struct Directory(pub(crate) PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("oncebox-it-{}-{count}", std::process::id()));
        // Process ids are reused, so the directory may exist.
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Stores are dropped before. If this fails, the system cleans up.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An in-memory inbox on the runtime's paused clock, which advances when all tasks are idle. Supports fault injection.
/// Its random numbers, including jitter, are the same in every run.
pub(crate) struct Paused {
    pub(crate) oncebox: Oncebox,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) faults: FaultPlan,
}

/// Store time that runs with the runtime's clock.
pub(crate) struct RuntimeClock(Instant);

impl RuntimeClock {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }
}

impl Clock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_767_225_600_000).after(self.0.elapsed())
    }
}

impl Paused {
    /// Must be called inside a runtime with paused time.
    pub(crate) fn new() -> Self {
        let clock = Arc::new(RuntimeClock::new());
        let options = oncebox_store_memory::MemoryOptions::default();
        let ids = Box::new(SplitMix::new(1));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::with(options, clock.clone(), ids));
        let faults = FaultPlan::default();
        let failing = Arc::new(FaultyStore::new(store.clone(), faults.clone()));
        let rng = Box::new(SplitMix::new(2));
        let oncebox = Oncebox::builder().name("paused").clock(clock).rng(rng).on(failing);
        Self { oncebox: oncebox.expect("the settings are valid"), store, faults }
    }

    pub(crate) async fn enqueue(&self, topic: &str, id: &str) {
        enqueue(&self.oncebox, topic, id).await;
    }

    pub(crate) async fn show(&self, id: &str) -> Snapshot {
        show(&*self.store, id).await
    }
}
