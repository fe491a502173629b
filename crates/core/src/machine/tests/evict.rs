//! Evicting and recalling at random moments changes no outcome.

use std::collections::BTreeMap;

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};

use super::world::{Operation, World, cases, steps};
use crate::machine::{Machine, Version};
use crate::{MessageRef, MessageState, Snapshot, Timestamp, Uid};

/// Cold storage for evicted messages.
#[derive(Default)]
struct ColdStorage(BTreeMap<Uid, Snapshot>);

impl ColdStorage {
    /// Evicts everything that may leave memory.
    fn evict_all(&mut self, machine: &mut Machine) {
        let uids: Vec<_> = machine.messages.iter().map(|(_, message)| message.uid).collect();
        for uid in uids {
            if let Some((snapshot, version)) = machine.evictable(uid) {
                assert!(machine.evict(uid, version), "nothing changed in between");
                self.0.insert(uid, snapshot);
            }
        }
    }

    /// Recalls the messages that the operation refers to, and those that are due.
    fn recall(&mut self, machine: &mut Machine, operation: &Operation, now: Timestamp) {
        let mut wanted: Vec<Uid> =
            self.0.values().filter(|found| is_due(found, operation, now)).map(|found| found.uid).collect();
        for target in operation.refs().iter().filter(|target| machine.needs_recall(target)) {
            wanted.extend(self.find(target));
        }
        for uid in wanted {
            if let Some(snapshot) = self.0.remove(&uid) {
                machine.recall(&snapshot);
            }
        }
    }

    fn find(&self, target: &MessageRef) -> Option<Uid> {
        match target {
            MessageRef::Uid(uid) => self.0.contains_key(uid).then_some(*uid),
            MessageRef::Key(key) => {
                let known = self.0.values().filter(|found| found.keyed && found.key == *key);
                known.max_by_key(|found| found.accepted_at.max(Timestamp::EPOCH)).map(|found| found.uid)
            }
        }
    }
}

fn is_due(found: &Snapshot, operation: &Operation, now: Timestamp) -> bool {
    let content = found.content.as_ref();
    let moment = content.and_then(|content| content.due.min(content.expires).or(content.due));
    matches!(operation, Operation::Maintain(_))
        || (found.state == MessageState::Processing && moment.is_some_and(|at| at <= now))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn evicting_and_recalling_changes_no_outcome(steps in steps()) {
        let (mut plain, mut evicting, mut cold) = (World::new(1), World::new(1), ColdStorage::default());
        for (index, step) in steps.into_iter().enumerate() {
            let operation = plain.operation(step);
            let same = evicting.operation(step);
            prop_assert_eq!(format!("{operation:?}"), format!("{same:?}"));
            cold.recall(&mut evicting.machine, &operation, evicting.now);
            let expected = plain.run(&operation, &mut ());
            prop_assert_eq!(evicting.run(&operation, &mut ()), expected, "after {:?}", operation);
            if index % 3 == 0 {
                cold.evict_all(&mut evicting.machine);
            }
        }
    }

    #[test]
    fn a_message_that_changed_since_its_snapshot_is_not_evicted(steps in steps()) {
        let mut world = World::new(6);
        let mut before: Vec<(Uid, Snapshot, Version)> = Vec::new();
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut ());
            for (uid, snapshot, version) in before.drain(..) {
                let slot = world.machine.find_uid(uid);
                // A hold may lapse without a change of the message.
                let now = slot.map(|slot| Snapshot { keyed: snapshot.keyed, ..world.machine.snapshot(slot) });
                let evicted = world.machine.evict(uid, version);
                prop_assert!(!evicted || now.as_ref() == Some(&snapshot), "evicted although it changed");
            }
            let uids: Vec<_> = world.machine.messages.iter().map(|(_, message)| message.uid).collect();
            for uid in uids {
                if let Some((snapshot, version)) = world.machine.evictable(uid) {
                    before.push((uid, snapshot, version));
                }
            }
        }
    }
}
