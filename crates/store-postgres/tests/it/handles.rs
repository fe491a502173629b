//! Two handles on one database: what one of them knows, and the other one does.

use std::sync::Arc;

use oncebox_core::Store;
use oncebox_store_postgres::PostgresStore;
use oncebox_testkit::{Fixture, ManualClock, TestResult, handles};

use crate::{fresh, pool};

/// A store, and another handle on the same tables that knows nothing of it.
async fn two() -> (Fixture, Arc<dyn Store>) {
    let pool = pool().await;
    let mut options = fresh(&pool).await;
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    let [ours, theirs] = [0; 2].map(|_| Arc::new(PostgresStore::new(pool.clone(), &options)));
    (Fixture { store: ours, time: clock }, theirs)
}

/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_in_one_topic_starves_no_other_that_another_process_fills() -> TestResult {
    let (fixture, other) = two().await;
    handles::a_backlog_in_one_topic_starves_no_other(&fixture, &other).await
}

/// More lanes than a process remembers, filled by another one: the cache is empty at first and full later, and nothing waits for it.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_topics_that_another_process_filled_are_all_served() -> TestResult {
    let (fixture, other) = two().await;
    handles::thousands_of_topics_are_all_served(&fixture, &other).await
}

/// The process that filled thousands of topics serves those that it does not remember, too.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_topics_are_all_served_by_who_filled_them() -> TestResult {
    let (fixture, _) = two().await;
    let same = fixture.store.clone();
    handles::thousands_of_topics_are_all_served(&fixture, &same).await
}
