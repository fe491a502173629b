//! Salvage: missing records never break the machine, and no record that is left is lost.

use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

use super::world::{World, cases, dump, steps};
use crate::machine::{
    CallContext, Capacity, Effect, Journal, Machine, RecordChange, RecordJournal, TimedEffect,
};
use crate::{IdSource, MessageState, Timestamp, Uid};

/// A journal that loses some records on the way to a second machine.
struct Lossy {
    copy: Machine,
    /// Whether the next record is lost; repeated cyclically.
    lost: Vec<bool>,
    count: usize,
    /// The message of the newest record, if that was applied and settled the message as Done.
    done: Option<Uid>,
}

impl RecordJournal for Lossy {
    fn record_change(&mut self, _: &str, _: RecordChange<'_>) {}
}

impl Journal for Lossy {
    fn record(&mut self, record: TimedEffect<'_>) {
        self.count += 1;
        if self.lost[self.count % self.lost.len()] {
            return;
        }
        let here = self.copy.salvage(record);
        let settled = matches!(record.effect, Effect::Settled { outcome: crate::Settled::Done, .. });
        self.done = Some(record.uid).filter(|_| settled && here);
    }
}

struct Uids(u64);

impl IdSource for Uids {
    fn next_uid(&mut self, _: Timestamp) -> Uid {
        self.0 += 1;
        Uid::from_u128(u128::from(self.0) << 64)
    }
}

fn lossy(lost: Vec<bool>) -> Lossy {
    Lossy { copy: Machine::new(Capacity::default()), lost, count: 0, done: None }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_losses_salvage_equals_replay(steps in steps()) {
        let mut world = World::new(6);
        let mut journal = lossy(vec![false]);
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut journal);
            world.advance(&mut journal);
            let mut context = CallContext { now: world.now, ids: &mut Uids(0), journal: &mut () };
            journal.copy.advance(&mut context);
            prop_assert_eq!(dump(&journal.copy), dump(&world.machine));
        }
    }

    /// A salvaged machine can be written as a whole, read back, and used.
    #[test]
    fn a_salvaged_machine_is_sound(steps in steps(), more in steps(), lost in prop::collection::vec(any::<bool>(), 2..40)) {
        let mut world = World::new(6);
        let mut journal = lossy(lost);
        for step in steps {
            let operation = world.operation(step);
            world.run(&operation, &mut journal);
            if let Some(uid) = journal.done.take() {
                let found = journal.copy.peek(uid).map(|snapshot| snapshot.state);
                prop_assert!(found.is_none_or(|state| state == MessageState::Done), "{found:?}");
            }
        }
        journal.copy.replay_timers(journal.copy.now());
        // This also checks the indexes.
        dump(&journal.copy);
        let mut again = Machine::new(Capacity::default());
        for uid in journal.copy.uids() {
            let snapshot = journal.copy.peek(uid).unwrap();
            again.replay(TimedEffect { at: journal.copy.now(), uid, effect: Effect::Restored(&snapshot) });
        }
        let snapshots = |machine: &Machine| -> Vec<_> {
            machine.uids().map(|uid| format!("{:?}", machine.peek(uid))).collect()
        };
        prop_assert_eq!(snapshots(&again), snapshots(&journal.copy));
        world.machine = again;
        for step in more {
            let operation = world.operation(step);
            world.run(&operation, &mut ());
        }
        dump(&world.machine);
    }
}

/// A number is assigned again after a restart if its message is gone.
#[test]
fn a_reused_number_removes_its_first_message() {
    let mut machine: Machine = Machine::new(Capacity::default());
    let mut accept = |uid: u128, number: u64| {
        let key = crate::Key::inbox("s", uid.to_string()).unwrap();
        let message = crate::NewMessage::new(
            key,
            crate::Topic::new("t").unwrap(),
            crate::Payload::new(Vec::new()).unwrap(),
        );
        let effect = Effect::Accepted { number: crate::Number(number), message: &message };
        machine.salvage(TimedEffect { at: Timestamp::EPOCH, uid: Uid::from_u128(uid), effect })
    };
    assert!(accept(1, 7) && accept(2, 8) && accept(3, 7));
    assert_eq!(machine.uids().map(Uid::as_u128).collect::<Vec<_>>(), [3, 2]);
    dump(&machine);
}

/// The record of the content is lost, that of the claim is not: there is nothing to deliver.
#[test]
fn a_repeated_claim_of_lost_content_gets_nothing() {
    let (uid, owner) = (Uid::from_u128(1), crate::Owner::new(7).unwrap());
    let key = crate::Key::inbox("s", "1").unwrap();
    let hold = crate::Policy::INBOX.hold;
    let observed =
        Effect::Recorded { number: crate::Number(1), key: &key, hold, hash: None, state: MessageState::Seen };
    let lease =
        crate::Lease { owner, fence: crate::Fence::new(1).unwrap(), until: Timestamp::from_millis(9) };
    let span = crate::Span::lease(std::time::Duration::from_secs(1)).unwrap();
    let mut claim = crate::Claim::new(crate::Namespace::Inbox, owner, span, crate::Batch::ONE);
    claim.request = Some(crate::RequestId::from_u128(5));
    let request = claim.request_identity();
    let granted = Effect::Granted {
        lease,
        extendable_until: Timestamp::NEVER,
        request,
        attempts_max: None,
        worker: None,
    };
    let mut machine: Machine = Machine::new(Capacity::default());
    for effect in [observed, granted] {
        assert!(machine.salvage(TimedEffect { at: Timestamp::EPOCH, uid, effect }));
    }
    let mut context = CallContext { now: Timestamp::EPOCH, ids: &mut Uids(0), journal: &mut () };
    assert_eq!(machine.claim(&mut context, &claim), []);
    dump(&machine);
}

/// The record that would have revived it is lost, later ones are not: the retention of a dead letter is not affected.
#[test]
fn a_dead_letter_keeps_its_time_of_death() {
    let (uid, died) = (Uid::from_u128(1), Timestamp::from_millis(1_000));
    let key = crate::Key::inbox("s", "1").unwrap();
    let (topic, payload) = (crate::Topic::new("t").unwrap(), crate::Payload::new(Vec::new()).unwrap());
    let message = crate::NewMessage::new(key, topic, payload);
    let (owner, fence) = (crate::Owner::new(7).unwrap(), crate::Fence::new(1).unwrap());
    let lease = crate::Lease { owner, fence, until: Timestamp::from_millis(9_000) };
    let outcome = crate::Settled::Retrying { at: Timestamp::from_millis(5_000) };
    let mut machine: Machine = Machine::new(Capacity::default());
    for (at, effect) in [
        (0, Effect::Accepted { number: crate::Number(1), message: &message }),
        (1_000, Effect::Killed { reason: crate::DeadReason::Failed, error: None }),
        (
            2_000,
            Effect::Granted {
                lease,
                extendable_until: Timestamp::NEVER,
                request: None,
                attempts_max: None,
                worker: None,
            },
        ),
        (3_000, Effect::Settled { kind: crate::VerdictKind::Abandon, outcome, error: None }),
    ] {
        assert!(machine.salvage(TimedEffect { at: Timestamp::from_millis(at), uid, effect }));
        if at > 0 {
            let snapshot = machine.peek(uid).unwrap();
            assert_eq!((snapshot.state, snapshot.finished_at), (MessageState::Dead, Some(died)), "at {at}");
        }
    }
    dump(&machine);
}
