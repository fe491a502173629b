//! After a restart, a mailbox lane does not run far ahead of its outstanding deliveries from before.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::limits::MAILBOX_REORDER_MESSAGES_MAX;
use crate::machine::{CallContext, Capacity, Effect, Machine, Resume, TimedEffect};
use crate::{
    Batch, Claim, DeadReason, Delivery, Fence, Id, IdSource, Key, Namespace, NewMessage, Number, Owner,
    Payload, Shard, Source, Span, Timestamp, Topic, Uid,
};

struct Ids(u128);

impl IdSource for Ids {
    fn next_uid(&mut self, _: Timestamp) -> Uid {
        self.0 += 1;
        Uid::from_u128(self.0)
    }
}

struct Mailbox {
    machine: Machine,
    now: Timestamp,
    ids: Ids,
}

impl Mailbox {
    fn with(namespace: Namespace, messages: u32) -> Self {
        let mut mailbox = Self {
            machine: Machine::new(Capacity::default()),
            now: Timestamp::from_millis(1_000),
            ids: Ids(0),
        };
        for number in 0..messages {
            let id = Id::new(number.to_string()).unwrap();
            let key = Key::new(namespace, Source::new("topic").unwrap(), id);
            let message = NewMessage::new(key, Topic::new("topic").unwrap(), Payload::default());
            mailbox.call(|machine, context| machine.accept(context, &message));
        }
        mailbox
    }

    fn call<T>(&mut self, run: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T) -> T {
        let mut context = CallContext { now: self.now, ids: &mut self.ids, journal: &mut () };
        run(&mut self.machine, &mut context)
    }

    /// Restarts, and holds existing messages back for `held`; returns until when.
    fn resume(&mut self, held: Duration) -> Timestamp {
        let held_until = self.now.after(held);
        let (number_floor, fence_floor) = (Number(1_000), Fence::new(1_000).unwrap());
        self.machine.resume(Resume { now: self.now, number_floor, fence_floor, held_until });
        held_until
    }

    fn claim(&mut self, namespace: Namespace, count: u32) -> Vec<Delivery> {
        let lease = Span::lease(Duration::from_secs(30)).unwrap();
        let claim = Claim::new(namespace, Owner::new(1).unwrap(), lease, Batch::new(count).unwrap());
        self.call(|machine, context| machine.claim(context, &claim))
    }
}

/// Holds: RULE-11, MBX-G-9.
#[test]
fn a_mailbox_lane_delivers_32_messages_past_its_oldest_inherited_delivery() {
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 100);
    let before = mailbox.claim(Namespace::Mailbox, 3);
    mailbox.resume(Duration::ZERO);
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 0);
    // The oldest is settled: the next inherited delivery limits the lane, and the 32 deliveries are past that one too.
    mailbox.call(|machine, context| machine.settle(context, &before[0].ack()));
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 0);
    mailbox.call(|machine, context| machine.settle(context, &before[1].ack()));
    mailbox.call(|machine, context| machine.settle(context, &before[2].ack()));
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 100 - 3 - MAILBOX_REORDER_MESSAGES_MAX);
    let usage = mailbox.call(Machine::usage);
    let depths = BTreeMap::from([(Shard::default(), MAILBOX_REORDER_MESSAGES_MAX as u64)]);
    assert_eq!(usage.reorder_depths, depths, "usage reports the reorder depth");
}

/// Holds: RULE-11, MBX-G-9.
#[test]
fn an_inherited_delivery_whose_lease_lapses_is_redelivered_first_and_frees_the_lane() {
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 50);
    let before = mailbox.claim(Namespace::Mailbox, 1);
    mailbox.resume(Duration::ZERO);
    let past = mailbox.claim(Namespace::Mailbox, 40);
    assert_eq!(past.len(), MAILBOX_REORDER_MESSAGES_MAX);
    let acks: Vec<_> = past.iter().map(Delivery::ack).collect();
    for ack in &acks {
        mailbox.call(|machine, context| machine.settle(context, ack));
    }
    mailbox.now = mailbox.now.after(Duration::from_secs(30));
    let after = mailbox.claim(Namespace::Mailbox, 50);
    assert_eq!(after[0].uid, before[0].uid);
    assert_eq!(after.len(), 50 - MAILBOX_REORDER_MESSAGES_MAX);
}

/// Holds: RULE-11.
#[test]
fn other_namespaces_are_not_restricted_after_a_restart() {
    let mut inbox = Mailbox::with(Namespace::Inbox, 100);
    inbox.claim(Namespace::Inbox, 3);
    inbox.resume(Duration::ZERO);
    assert_eq!(inbox.claim(Namespace::Inbox, 100).len(), 97);
}

/// A waiting worker must neither spin on a lane that is held back nor miss that the lane is free again.
#[test]
fn a_lane_that_is_held_back_wakes_nobody_until_it_is_free_again() {
    let woken = |mailbox: &mut Mailbox| {
        let mut topics = 0;
        mailbox.machine.take_wakeups(|_, _| topics += 1);
        topics
    };
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 40);
    let before = mailbox.claim(Namespace::Mailbox, 1);
    mailbox.resume(Duration::ZERO);
    mailbox.claim(Namespace::Mailbox, 40);
    woken(&mut mailbox);
    assert_eq!(mailbox.claim(Namespace::Mailbox, 40).len(), 0);
    assert_eq!(woken(&mut mailbox), 0);
    mailbox.call(|machine, context| machine.settle(context, &before[0].ack()));
    assert_eq!(woken(&mut mailbox), 1);
}

/// Holds: RULE-05.
#[test]
fn a_message_that_may_still_be_leased_is_held_back() {
    let mut inbox = Mailbox::with(Namespace::Inbox, 2);
    let known = inbox.claim(Namespace::Inbox, 1);
    let until = inbox.resume(Duration::from_secs(60));
    // The lease of 30 s does not end before 60 s, and the message that seems free is not delivered before that.
    inbox.now = Timestamp::from_millis(until.as_millis() - 1);
    assert_eq!(inbox.claim(Namespace::Inbox, 10), []);
    inbox.now = until;
    let uids: Vec<_> = inbox.claim(Namespace::Inbox, 10).iter().map(|delivery| delivery.uid).collect();
    assert_eq!((uids.len(), uids[0]), (2, known[0].uid));
}

/// Holds: RULE-05.
#[test]
fn no_fence_is_assigned_again_after_a_restart() {
    let mut inbox = Mailbox::with(Namespace::Inbox, 1);
    let before = inbox.claim(Namespace::Inbox, 1);
    inbox.call(|machine, context| machine.settle(context, &before[0].release()));
    let snapshot = inbox.machine.peek(before[0].uid).unwrap();
    // Only what a compacted journal contains is left, without a current lease.
    inbox.machine = Machine::new(Capacity::default());
    inbox.machine.replay(TimedEffect {
        at: inbox.now,
        uid: snapshot.uid,
        effect: Effect::Restored(&snapshot),
    });
    assert!(inbox.claim(Namespace::Inbox, 1)[0].lease.fence > before[0].lease.fence);
    inbox.resume(Duration::ZERO);
    inbox.now = inbox.now.after(Duration::from_secs(30));
    assert_eq!(inbox.claim(Namespace::Inbox, 1)[0].lease.fence.get(), 1_000);
}

/// Holds: RULE-05, RULE-09.
#[test]
fn timer_events_during_a_restart_happen_at_their_instant() {
    let mut inbox = Mailbox::with(Namespace::Inbox, 0);
    let key = Key::inbox("source", "id").unwrap();
    let mut message = NewMessage::new(key, Topic::new("topic").unwrap(), Payload::default());
    message.policy.attempts_max = NonZeroU32::new(1);
    inbox.call(|machine, context| machine.accept(context, &message));
    let delivery = inbox.claim(Namespace::Inbox, 1).remove(0);
    inbox.now = inbox.now.after(Duration::from_secs(3_600));
    inbox.resume(Duration::ZERO);
    let dead = inbox.call(|machine, context| machine.get(context, &delivery.uid.into())).unwrap();
    assert_eq!((dead.dead, dead.finished_at), (Some(DeadReason::Exhausted), Some(delivery.lease.until)));
}
