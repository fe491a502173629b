//! The embedded store: conformance suite, faulty cases, random comparison, and its own tests.

#[cfg(test)]
mod bounds;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod failing_disk;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod full;
#[cfg(test)]
mod log;
#[cfg(test)]
mod mass;
#[cfg(test)]
mod offline;
#[cfg(test)]
mod oracle;
#[cfg(test)]
mod ownership;
#[cfg(test)]
mod reclaim;
#[cfg(test)]
mod reopening;
#[cfg(test)]
mod restarts;
#[cfg(test)]
mod space;

use std::sync::Arc;

use oncebox_store_embedded::{EmbeddedOptions, EmbeddedStore};
use oncebox_testkit::{Fixture, ManualClock};

use disk::SimDisk;

async fn open() -> Fixture {
    let clock = Arc::new(ManualClock::default());
    let store = open_on(&SimDisk::default(), &clock);
    Fixture { store: Arc::new(store), time: clock }
}

fn open_on(disk: &SimDisk, clock: &Arc<ManualClock>) -> EmbeddedStore {
    EmbeddedStore::open_on(Arc::new(disk.clone()), &options(clock)).expect("an intact store opens")
}

fn options(clock: &Arc<ManualClock>) -> EmbeddedOptions {
    let mut options = EmbeddedOptions::default();
    options.segment_bytes = 64 << 10;
    options.clock = Some(clock.clone());
    options
}

oncebox_testkit::conformance!(open);
oncebox_testkit::faulty_cases!(open);
oncebox_testkit::random_comparison!(open);
