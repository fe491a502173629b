//! Replaying the recorded effects rebuilds the same state.

use proptest::prelude::{ProptestConfig, prop_assert_eq, proptest};

use super::world::{World, cases, dump, steps};
use crate::machine::{Capacity, Effect, Journal, Machine, Record};
use crate::{Id, Key, Namespace, Source, Timestamp, Uid};

/// A journal that replays each effect into a second machine at once, but for those that time has brought: the second
/// machine finds those out by itself.
struct Twin(Machine);

impl Journal for Twin {
    fn record(&mut self, record: Record<'_>) {
        if record.effect.is_of_time() {
            return;
        }
        assert!(self.0.replay(record), "what was recorded finds its message");
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
            world.pass_time(&mut twin);
            twin.0.pass_time_again(world.now);
            prop_assert_eq!(dump(&twin.0), dump(&world.machine));
        }
    }

    /// What a reclaiming store writes: the whole message again instead of its history.
    #[test]
    fn a_restored_message_stands_as_it_stood(steps in steps()) {
        let mut world = World::new(6);
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut ());
        }
        world.pass_time(&mut ());
        let mut copy = Machine::new(Capacity::default());
        let mut snapshots: Vec<_> = world.machine.messages.iter().map(|(slot, _)| world.machine.snapshot(slot)).collect();
        // The holder of a key comes after those that lost it.
        snapshots.sort_by_key(|snapshot| snapshot.number);
        for snapshot in &snapshots {
            let record = Record { at: world.now, uid: snapshot.uid, effect: Effect::Restored(snapshot) };
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
fn an_effect_on_a_message_that_is_not_here_does_nothing() {
    let mut machine: Machine = Machine::new(Capacity::default());
    let record = Record { at: Timestamp::EPOCH, uid: Uid::from_u128(5), effect: Effect::Dropped };
    assert!(!machine.replay(record));
    let key = Key::new(Namespace::Inbox, Source::new("s").unwrap(), Id::new("i").unwrap());
    assert!(machine.needs(&key.into()));
}
