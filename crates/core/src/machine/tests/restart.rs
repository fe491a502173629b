//! After a restart a mailbox lane does not run far ahead of what was out before it.

use std::time::Duration;

use crate::limits::MAILBOX_REORDER_MESSAGES_MAX;
use crate::machine::{Capacity, Machine, Turn};
use crate::{
    Batch, Claim, Delivery, Id, IdSource, Key, Namespace, NewMessage, Owner, Payload, Source, Span,
    Timestamp, Topic, Uid,
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
            mailbox.turn(|machine, turn| machine.accept(turn, &message));
        }
        mailbox
    }

    fn turn<T>(&mut self, run: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T) -> T {
        let mut turn = Turn { now: self.now, ids: &mut self.ids, journal: &mut () };
        run(&mut self.machine, &mut turn)
    }

    fn claim(&mut self, namespace: Namespace, count: u32) -> Vec<Delivery> {
        let lease = Span::lease(Duration::from_secs(30)).unwrap();
        let claim = Claim::new(namespace, Owner::new(1).unwrap(), lease, Batch::new(count).unwrap());
        self.turn(|machine, turn| machine.claim(turn, &claim))
    }
}

/// Holds: RULE-11, MBX-G-9.
#[test]
fn a_mailbox_lane_gives_out_32_past_its_oldest_inherited_delivery() {
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 100);
    let before = mailbox.claim(Namespace::Mailbox, 3);
    mailbox.machine.resume();
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 0);
    // The oldest is settled: the next inherited one bounds the lane, and what was given out lies past it too.
    mailbox.turn(|machine, turn| machine.settle(turn, &before[0].ack()));
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 0);
    mailbox.turn(|machine, turn| machine.settle(turn, &before[1].ack()));
    mailbox.turn(|machine, turn| machine.settle(turn, &before[2].ack()));
    assert_eq!(mailbox.claim(Namespace::Mailbox, 100).len(), 100 - 3 - MAILBOX_REORDER_MESSAGES_MAX);
}

/// Holds: RULE-11, MBX-G-9.
#[test]
fn an_inherited_delivery_whose_lease_ends_comes_first_and_frees_the_lane() {
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 50);
    let before = mailbox.claim(Namespace::Mailbox, 1);
    mailbox.machine.resume();
    let past = mailbox.claim(Namespace::Mailbox, 40);
    assert_eq!(past.len(), MAILBOX_REORDER_MESSAGES_MAX);
    let acks: Vec<_> = past.iter().map(Delivery::ack).collect();
    for ack in &acks {
        mailbox.turn(|machine, turn| machine.settle(turn, ack));
    }
    mailbox.now = mailbox.now.after(Duration::from_secs(30));
    let after = mailbox.claim(Namespace::Mailbox, 50);
    assert_eq!(after[0].uid, before[0].uid);
    assert_eq!(after.len(), 50 - MAILBOX_REORDER_MESSAGES_MAX);
}

/// Holds: RULE-11.
#[test]
fn other_namespaces_run_on_after_a_restart() {
    let mut inbox = Mailbox::with(Namespace::Inbox, 100);
    inbox.claim(Namespace::Inbox, 3);
    inbox.machine.resume();
    assert_eq!(inbox.claim(Namespace::Inbox, 100).len(), 97);
}

/// A worker that waits must neither spin on a lane that is held back nor miss that it runs again.
#[test]
fn a_lane_that_is_held_back_wakes_nobody_until_it_runs_again() {
    let woken = |mailbox: &mut Mailbox| {
        let mut topics = 0;
        mailbox.machine.take_woken(|_, _| topics += 1);
        topics
    };
    let mut mailbox = Mailbox::with(Namespace::Mailbox, 40);
    let before = mailbox.claim(Namespace::Mailbox, 1);
    mailbox.machine.resume();
    mailbox.claim(Namespace::Mailbox, 40);
    woken(&mut mailbox);
    assert_eq!(mailbox.claim(Namespace::Mailbox, 40).len(), 0);
    assert_eq!(woken(&mut mailbox), 0);
    mailbox.turn(|machine, turn| machine.settle(turn, &before[0].ack()));
    assert_eq!(woken(&mut mailbox), 1);
}
