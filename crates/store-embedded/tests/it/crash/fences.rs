//! A fence that was given out never comes again, whatever a power cut takes and whenever answers are given.
//!
//! A fence carries the number of its opening, and two syncs make that number durable before the first grant: an opening that
//! begins a segment has it in the segment's header, one that continues the newest segment (a full disk) in its first group alone.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Fence, Key, Namespace, NewMessage, Owner, Payload, Span, StoreExt, Topic,
};
use oncebox_store_embedded::disk::Disk;
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_testkit::{ManualClock, SplitMix, TestResult, block_on};

use super::history::options;
use super::tape::{Loss, Tape};
use crate::disk::SimDisk;

const LEASE: Duration = Duration::from_secs(1);
/// An interval that does not end during a test.
const HOUR: Duration = Duration::from_secs(60 * 60);
const MODES: [Durability; 3] = [Durability::Sync, Durability::Interval(HOUR), Durability::Os];

struct Opener {
    clock: Arc<ManualClock>,
    durability: Durability,
}

impl Opener {
    fn new(durability: Durability) -> Self {
        Self { clock: Arc::new(ManualClock::default()), durability }
    }

    fn open(&self, disk: impl Disk + 'static, boot: &str) -> EmbeddedStore {
        let mut options = options(&self.clock, boot);
        options.durability = self.durability;
        EmbeddedStore::open_on(Arc::new(disk), &options).unwrap()
    }
}

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("source", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 1_000]).unwrap())
}

fn claim(store: &EmbeddedStore) -> Fence {
    let (owner, lease) = (Owner::new(1).unwrap(), Span::lease(LEASE).unwrap());
    let claim = Claim::new(Namespace::Inbox, owner, lease, Batch::ONE);
    block_on(store.claim(&claim)).unwrap()[0].lease.fence
}

/// Holds: RULE-05.
#[test]
fn no_fence_comes_again_after_a_power_cut_soon_after_opening() -> TestResult {
    for durability in MODES {
        let opener = Opener::new(durability);
        let tape = Tape::default();
        let store = opener.open(tape.clone(), "first");
        block_on(store.accept_one(&message(1)))?;
        drop(store);
        let store = opener.open(tape.clone(), "first");
        let given = claim(&store);
        let position = tape.position();
        for loss in Loss::ALL {
            let left = Tape::new(tape.replay(position).crash(loss, &mut SplitMix::new(1)));
            let again = opener.open(left, "second");
            // Whatever the holder of the lost lease had is over by now.
            opener.clock.advance(LEASE * 2);
            let fence = claim(&again);
            assert!(fence > given, "{durability:?}, lost {loss:?}: {given:?} came again as {fence:?}");
        }
    }
    Ok(())
}

/// A full disk has no file for a new segment, so the number of an opening is in no header.
/// Holds: RULE-05.
#[test]
fn no_fence_comes_again_after_a_power_cut_soon_after_opening_on_a_full_disk() {
    const OPENINGS: usize = 6;
    for durability in MODES {
        let (opener, mut disk) = (Opener::new(durability), SimDisk::default());
        let store = opener.open(disk.clone(), "0");
        disk.set_full(true);
        let mut messages = (0..1_000).map(message);
        let full =
            |message: &NewMessage| !matches!(block_on(store.accept_one(message)), Ok(Accepted::New { .. }));
        assert!(messages.any(|message| full(&message)), "the disk is full");
        drop(store);
        let (mut given, mut continued) = (None, 0);
        for boot in 1..=OPENINGS {
            let before = disk.newest_segment().0;
            let store = opener.open(disk.clone(), &boot.to_string());
            continued += usize::from(disk.newest_segment().0 == before);
            // Whatever the holder of a lost lease had is over by now.
            opener.clock.advance(LEASE * 2);
            let fence = claim(&store);
            assert!(
                Some(fence) > given,
                "{durability:?}: {given:?} came again as {fence:?} in opening {boot}"
            );
            given = Some(fence);
            let left = disk.after_power_cut();
            drop(store);
            disk = left;
            disk.set_full(true);
        }
        assert!(continued >= 3, "only {continued} of {OPENINGS} openings found no file for a segment");
    }
}
