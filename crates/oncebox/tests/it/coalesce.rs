//! The coalescing layer: it keeps the contract of the port, and merges calls where that is allowed.

mod batching;
mod blocked;
mod cancelling;
mod failing;
mod harness;
mod items;
mod mock_store;
mod outcomes;
mod pacing;
mod random;
mod time_limits;

use std::sync::Arc;

use oncebox::layers::Coalesced;
use oncebox_store_memory::{MemoryOptions, MemoryStore};
use oncebox_testkit::{Fixture, ManualClock, SplitMix};

async fn open() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with(MemoryOptions::default(), clock.clone(), Box::new(SplitMix::new(1)));
    Fixture { store: Arc::new(Coalesced::new(Arc::new(store))), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open);
