//! Bounds of the embedded store: a full store returns `Saturated`, and forgets no held key.

use std::sync::Arc;

use oncebox_core::machine::Capacity;
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::{Fixture, ManualClock, TestResult, block_on, bounds};

use crate::disk::SimDisk;
use crate::options;

fn bounded(change: impl FnOnce(&mut Capacity)) -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let mut options = options(&clock);
    change(&mut options.capacity);
    let store = EmbeddedStore::open_on(Arc::new(SimDisk::default()), &options).expect("a new store opens");
    Fixture { store: Arc::new(store), time: clock }
}

/// Holds: MBX-I-5, MBX-I-13, RULE-03.
#[test]
fn a_full_store_forgets_no_key() -> TestResult {
    block_on(bounds::a_full_store_forgets_no_key(bounded(|capacity| capacity.keys_max = 5)))
}

/// Holds: MBX-I-5, RULE-19.
#[test]
fn bytes_are_bounded_also_when_content_is_replaced() -> TestResult {
    block_on(bounds::a_store_full_of_bytes_is_saturated(bounded(|capacity| capacity.live_bytes_max = 10_000)))
}
