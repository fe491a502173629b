//! Tests of the memory store: the conformance suite, the cases with faults, the random comparison, and its bounds.

#[cfg(test)]
mod bounds;
#[cfg(oncebox_loom)]
mod interleavings;

use std::sync::Arc;

use oncebox_store_memory::{MemoryOptions, MemoryStore};
use oncebox_testkit::{Fixture, ManualClock, SplitMix};

async fn open() -> Fixture {
    open_with(MemoryOptions::default())
}

fn open_with(options: MemoryOptions) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let store = MemoryStore::with(options, clock.clone(), Box::new(SplitMix::new(1)));
    Fixture { store: Arc::new(store), time: clock }
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open);
