//! The engine proven on a small store: a table in memory without locks, whose statements fail at random with conflicts.
//! It must pass what every store passes.

#[cfg(test)]
mod handles;
#[cfg(test)]
mod steps;
mod table;
mod table_rows;
mod table_store;

use std::sync::Arc;

use oncebox_store_rows::LockWait;
use oncebox_testkit::{Fixture, ManualClock};

use table::Table;
use table_store::TableStore;

/// How many statements fail with a conflict that they do not have, in percent.
const CONFLICT_PERCENT: u64 = 5;

async fn open() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let table = Arc::new(Table::new(clock.clone(), CONFLICT_PERCENT));
    Fixture { store: Arc::new(TableStore::new(table, 1, LockWait::Block)), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open, 64);
