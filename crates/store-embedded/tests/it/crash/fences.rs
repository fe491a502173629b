//! A fence that was given out never comes again, whatever a power cut takes and whenever answers are given.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Batch, Claim, Fence, Key, Namespace, NewMessage, Owner, Payload, Span, StoreExt, Topic};
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_testkit::{ManualClock, SplitMix, TestResult, block_on};

use super::history::options;
use super::tape::{Loss, Tape};

const LEASE: Duration = Duration::from_secs(1);

struct Opener {
    clock: Arc<ManualClock>,
    durability: Durability,
}

impl Opener {
    fn open(&self, tape: &Tape, boot: &str) -> EmbeddedStore {
        let mut options = options(&self.clock, boot);
        options.durability = self.durability;
        EmbeddedStore::open_on(Arc::new(tape.clone()), &options).unwrap()
    }
}

fn claim(store: &EmbeddedStore) -> Fence {
    let (owner, lease) = (Owner::new(1).unwrap(), Span::lease(LEASE).unwrap());
    let claim = Claim::new(Namespace::Inbox, owner, lease, Batch::ONE);
    block_on(store.claim(&claim)).unwrap()[0].lease.fence
}

/// Holds: RULE-05.
#[test]
fn no_fence_comes_again_after_a_power_cut_soon_after_opening() -> TestResult {
    let hour = Duration::from_secs(60 * 60);
    let key = Key::inbox("source", "1")?;
    let message = NewMessage::new(key, Topic::new("topic")?, Payload::default());
    for durability in [Durability::Sync, Durability::Interval(hour), Durability::Os] {
        let opener = Opener { clock: Arc::new(ManualClock::default()), durability };
        let tape = Tape::default();
        let store = opener.open(&tape, "first");
        block_on(store.accept_one(&message))?;
        drop(store);
        let store = opener.open(&tape, "first");
        let given = claim(&store);
        let position = tape.position();
        for loss in Loss::ALL {
            let left = Tape::new(tape.replay(position).crash(loss, &mut SplitMix::new(1)));
            let again = opener.open(&left, "second");
            // Whatever the holder of the lost lease had is over by now.
            opener.clock.advance(LEASE * 2);
            let fence = claim(&again);
            assert!(fence > given, "{durability:?}, lost {loss:?}: {given:?} came again as {fence:?}");
        }
    }
    Ok(())
}
