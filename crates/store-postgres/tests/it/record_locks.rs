//! Records: kinds whose limits were lowered, and locks of other transactions.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Direction, PageSize, RecordId, RecordKind, RecordOp, RecordOutcome, RecordValue, StoreExt, WhenFull,
    WriteCondition,
};
use oncebox_store_postgres::PostgresStore;
use sqlx::{AssertSqlSafe, Executor};
use tokio::time::timeout;

use crate::{fresh, pool};

async fn opened() -> (Arc<PostgresStore>, sqlx::PgPool, String) {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let store = Arc::new(PostgresStore::new(pool.clone(), &options));
    let schema = format!("\"{}\"", options.schema.name().replace('"', "\"\""));
    (store, pool, schema)
}

fn put(kind: RecordKind, id: &str) -> RecordOp {
    let (id, value) = (RecordId::new(id).unwrap(), RecordValue::default());
    RecordOp::Put { kind, id, value, condition: WriteCondition::Always, keep: None }
}

/// The limit of a log is a constant of the code, and a newer version may lower it by any number. Each write removes some
/// of the excess, so that the log is written again after a few.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_whose_limit_was_lowered_shrinks_with_each_write() {
    const LOG: RecordKind = RecordKind::new("log", 10, WhenFull::DropOldest);
    let (store, pool, schema) = opened().await;
    let fill = format!(
        "insert into {schema}.record_kind values ('log', 2500, 2500, 2500 * 132);
         insert into {schema}.record
         select 'log', to_char(n, 'FM0000'), n, 0, 9223372036854775807, 132, '' from generate_series(1, 2500) n"
    );
    pool.execute(AssertSqlSafe(fill)).await.unwrap();
    let mut outcomes = Vec::new();
    // The second id exists: the record that it would replace is neither lost nor counted twice.
    for id in ["new", "2499", "new"] {
        outcomes.push(store.record(put(LOG, id)).await.unwrap());
    }
    assert!(matches!(outcomes[2], RecordOutcome::Written(_)), "{outcomes:?}");
    let list =
        RecordOp::List { kind: LOG, direction: Direction::OldestFirst, after: None, size: PageSize::MAX };
    let RecordOutcome::Listed(records) = store.record(list).await.unwrap() else { panic!("a listing") };
    assert_eq!(records.len(), 10);
    let used = format!(
        "select 1 from {schema}.record_kind k where k.name = 'log'
            and k.records = (select count(*) from {schema}.record)
            and k.bytes = (select sum(bytes) from {schema}.record)"
    );
    assert_eq!(pool.fetch_all(AssertSqlSafe(used)).await.unwrap().len(), 1, "the counts are right");
}

/// A write that was cancelled while it waited for another transaction leaves no lock behind, and reads wait for nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_write_leaves_no_lock() {
    const STATE: RecordKind = RecordKind::new("state", 10, WhenFull::Refuse);
    let (store, pool, schema) = opened().await;
    store.record(put(STATE, "a")).await.unwrap();
    let mut other = pool.begin().await.unwrap();
    let lock = format!("select * from {schema}.record_kind for update");
    other.execute(AssertSqlSafe(lock)).await.unwrap();
    let short = Duration::from_millis(300);
    assert!(timeout(short, store.record(put(STATE, "a"))).await.is_err(), "the write waits for the lock");
    let get = RecordOp::Get { kind: STATE, id: RecordId::new("a").unwrap() };
    assert!(matches!(store.record(get).await.unwrap(), RecordOutcome::Found(Some(_))));
    other.rollback().await.unwrap();
    let written = store.record(put(STATE, "a")).await.unwrap();
    assert!(matches!(written, RecordOutcome::Written(_)), "{written:?}");
}
