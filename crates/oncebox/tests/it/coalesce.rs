//! The coalescing layer: it keeps the contract of the port, and merges what may be merged.

mod aside;
mod cancelling;
mod crowding;
mod dealing;
mod failing;
mod grouping;
mod inner;
mod items;
mod random;
mod world;

use std::sync::Arc;

use oncebox::layers::Coalesced;
use oncebox_store_memory::{MemoryStore, Options};
use oncebox_testkit::{Fixture, ManualClock, SplitMix};

async fn open() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with(Options::default(), clock.clone(), Box::new(SplitMix::new(1)));
    Fixture { store: Arc::new(Coalesced::new(Arc::new(store))), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open);
