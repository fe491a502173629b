//! Two handles on one table that share nothing else.

use std::sync::Arc;

use oncebox_core::Store;
use oncebox_store_rows::LockWait;
use oncebox_testkit::{Fixture, ManualClock, TestResult, handles};

use crate::table::Table;
use crate::table_store::TableStore;

fn two() -> (Fixture, Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::default());
    let table = Arc::new(Table::new(clock.clone(), 0));
    let [ours, theirs] = [1, 2].map(|seed| Arc::new(TableStore::new(table.clone(), seed, LockWait::Block)));
    (Fixture { store: ours, time: clock }, theirs)
}

#[tokio::test]
async fn a_backlog_in_one_topic_starves_no_other_that_another_handle_fills() -> TestResult {
    let (fixture, other) = two();
    handles::a_backlog_in_one_topic_starves_no_other(&fixture, &other).await
}

#[tokio::test]
async fn thousands_of_topics_that_another_handle_filled_are_all_served() -> TestResult {
    let (fixture, other) = two();
    handles::thousands_of_topics_are_all_served(&fixture, &other).await
}
