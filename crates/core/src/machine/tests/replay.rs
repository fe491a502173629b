//! Replaying the recorded effects rebuilds the same state.

use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

use super::world::{World, cases, dump, steps};
use crate::machine::{Capacity, Effect, Journal, Machine, RecordChange, RecordJournal, TimedEffect};
use crate::{Id, Key, Namespace, Source, Timestamp, Uid};

/// A journal that replays each effect into a second machine at once, except time-driven ones, which the second machine
/// derives itself.
struct Twin(Machine);

impl RecordJournal for Twin {
    fn record_change(&mut self, kind: &str, change: RecordChange<'_>) {
        self.0.records_mut().replay(kind, change);
    }
}

impl Journal for Twin {
    fn record(&mut self, record: TimedEffect<'_>) {
        if record.effect.is_time_driven() {
            return;
        }
        assert!(self.0.replay(record), "a recorded effect applies");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    /// Holds: RULE-13.
    #[test]
    fn replaying_the_records_rebuilds_the_same_state(steps in steps()) {
        let mut world = World::new(6);
        let mut twin = Twin(Machine::new(Capacity::default()));
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut twin);
            world.advance(&mut twin);
            twin.0.replay_timers(world.now);
            prop_assert_eq!(dump(&twin.0), dump(&world.machine));
        }
    }

    /// Compaction writes the whole message instead of its history.
    #[test]
    fn a_restored_message_has_its_old_state(steps in steps()) {
        let mut world = World::new(6);
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut ());
        }
        world.advance(&mut ());
        let mut copy = Machine::new(Capacity::default());
        let mut snapshots: Vec<_> = world.machine.messages.iter().map(|(slot, _)| world.machine.snapshot(slot)).collect();
        // The holder of a key has to come after the messages that lost it.
        snapshots.sort_by_key(|snapshot| snapshot.number);
        for snapshot in &snapshots {
            let record = TimedEffect { at: world.now, uid: snapshot.uid, effect: Effect::Restored(snapshot) };
            copy.replay(record);
        }
        let snapshots_of = |machine: &Machine| {
            let mut all: Vec<_> =
                machine.messages.iter().map(|(slot, _)| format!("{:?}", machine.snapshot(slot))).collect();
            all.sort();
            all
        };
        prop_assert_eq!(snapshots_of(&copy), snapshots_of(&world.machine));
        prop_assert_eq!(copy.lanes.dump(), world.machine.lanes.dump());
    }
}

#[test]
fn an_effect_on_an_unknown_message_does_nothing() {
    let mut machine: Machine = Machine::new(Capacity::default());
    let record = TimedEffect { at: Timestamp::EPOCH, uid: Uid::from_u128(5), effect: Effect::Dropped };
    assert!(!machine.replay(record));
    let key = Key::new(Namespace::Inbox, Source::new("s").unwrap(), Id::new("i").unwrap());
    assert!(machine.needs_recall(&key.into()));
}
