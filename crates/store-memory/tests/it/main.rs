//! The memory store against the conformance suite, the faulty cases and the random comparison, and its own bounds.

#[cfg(test)]
mod bounds;
#[cfg(oncebox_loom)]
mod interleavings;

use std::sync::Arc;

use oncebox_store_memory::{MemoryStore, Options};
use oncebox_testkit::{Fixture, ManualClock, SplitMix};

async fn open() -> Fixture {
    open_with(Options::default())
}

fn open_with(options: Options) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with(options, clock.clone(), Box::new(SplitMix::new(1)));
    Fixture { store: Arc::new(store), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open);
