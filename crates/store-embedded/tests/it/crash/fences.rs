//! A granted fence is never reused, whatever a power cut loses, in every durability mode.
//!
//! A fence contains its epoch, and two syncs make the epoch durable before the first grant: an open that starts a
//! segment has it in the segment's header, one that continues the newest segment (on a full disk) only in its first
//! group.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Fence, Key, Namespace, NewMessage, Owner, Payload, Span, StoreExt, Topic,
};
use oncebox_store_embedded::disk::Disk;
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_testkit::{ManualClock, SplitMix, TestResult, block_on};

use super::history::options;
use super::recording_disk::{Loss, RecordingDisk};
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
fn no_fence_is_reused_after_a_power_cut_soon_after_open() -> TestResult {
    for durability in MODES {
        let opener = Opener::new(durability);
        let disk = RecordingDisk::default();
        let store = opener.open(disk.clone(), "first");
        block_on(store.accept_one(&message(1)))?;
        drop(store);
        let store = opener.open(disk.clone(), "first");
        let granted = claim(&store);
        let position = disk.position();
        for loss in Loss::ALL {
            let left = RecordingDisk::new(disk.replay(position).crash(loss, &mut SplitMix::new(1)));
            let again = opener.open(left, "second");
            // The lost lease has ended by now.
            opener.clock.advance(LEASE * 2);
            let fence = claim(&again);
            assert!(fence > granted, "{durability:?}, lost {loss:?}: {granted:?} was followed by {fence:?}");
        }
    }
    Ok(())
}

/// On a full disk no segment can be created, so the epoch is in no header.
/// Holds: RULE-05.
#[test]
fn no_fence_is_reused_after_a_power_cut_soon_after_open_on_a_full_disk() {
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
        let (mut granted, mut continued) = (None, 0);
        for boot in 1..=OPENINGS {
            let before = disk.newest_segment().0;
            let store = opener.open(disk.clone(), &boot.to_string());
            continued += usize::from(disk.newest_segment().0 == before);
            // The lost lease has ended by now.
            opener.clock.advance(LEASE * 2);
            let fence = claim(&store);
            assert!(
                Some(fence) > granted,
                "{durability:?}: {granted:?} was followed by {fence:?} in epoch {boot}"
            );
            granted = Some(fence);
            let left = disk.after_power_cut();
            drop(store);
            disk = left;
            disk.set_full(true);
        }
        assert!(continued >= 3, "only {continued} of {OPENINGS} opens continued the newest segment");
    }
}
