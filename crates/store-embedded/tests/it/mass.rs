//! Timer events of thousands of messages at once need no disk space, neither while the store is open nor at open.

mod real;

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Clock, DeadReason, Key, MessageState, Namespace, NewMessage, Owner,
    Payload, Scope, Span, Store, StoreExt, Timestamp, Topic,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::open_on;

const MESSAGES: usize = 6_000;
const SECOND: Duration = Duration::from_secs(1);

fn key(id: usize) -> Key {
    Key::inbox("source", id.to_string()).unwrap()
}

fn message(id: usize, expires: Option<Timestamp>) -> NewMessage {
    let mut message = NewMessage::new(key(id), Topic::new("topic").unwrap(), Payload::new("x").unwrap());
    message.content.expires = expires;
    message
}

fn claim(batch: u32) -> Claim {
    let lease = Span::lease(SECOND).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
}

/// A store with thousands of messages that expire after a second.
fn filled(disk: &SimDisk, clock: &Arc<ManualClock>) -> (EmbeddedStore, Timestamp) {
    let (store, expires) = (open_on(disk, clock), Clock::now(&**clock).after(SECOND));
    for first in (0..MESSAGES).step_by(20) {
        let messages: Vec<_> = (first..first + 20).map(|id| message(id, Some(expires))).collect();
        let accepted = block_on(store.accept(&messages)).unwrap();
        assert!(accepted.iter().all(|accepted| matches!(accepted, Accepted::New { .. })));
    }
    (store, expires)
}

fn check_expired(store: &EmbeddedStore, messages: usize, expires: Timestamp) -> TestResult {
    for id in [0, messages / 2, messages - 1] {
        let dead = block_on(store.get_one(&key(id).into()))?.ok_or("a message is missing")?;
        assert_eq!((dead.state, dead.dead), (MessageState::Dead, Some(DeadReason::Expired)));
        assert_eq!(dead.finished_at, Some(expires));
    }
    let counts = block_on(store.counts(&Scope::all(Namespace::Inbox)))?;
    assert_eq!((counts.ready, counts.dead), (0, messages as u64));
    Ok(())
}

/// Holds: RULE-05, RULE-12.
#[test]
fn a_store_whose_messages_all_expired_opens_again() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let (store, expires) = filled(&disk, &clock);
    let killed = disk.after_kill();
    drop(store);
    clock.advance(SECOND);
    for disk in [killed, disk] {
        for _ in 0..3 {
            let store = open_on(&disk, &clock);
            check_expired(&store, MESSAGES, expires)?;
        }
    }
    Ok(())
}

/// Timer events take no disk space, so workers and readers continue on a full disk.
/// Holds: RULE-05, RULE-12.
#[test]
fn everything_expires_while_the_disk_is_full() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let (store, expires) = filled(&disk, &clock);
    disk.set_full(true);
    clock.advance(SECOND);
    check_expired(&store, MESSAGES, expires)?;
    assert_eq!(block_on(store.claim(&claim(10)))?, []);
    let report = block_on(store.maintain(Budget::new(10_000)))?;
    assert_eq!(report.expired, MESSAGES as u64);
    Ok(())
}

/// A timer event that a reader has seen stays, even if the clock is set back before the next open.
/// Holds: RULE-05, RULE-09.
#[test]
fn timer_events_survive_a_clock_that_is_set_back() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let before = Clock::now(&*clock);
    let store = open_on(&disk, &clock);
    let expires = before.after(SECOND);
    block_on(store.accept_one(&message(1, Some(expires))))?;
    clock.advance(SECOND);
    let dead = block_on(store.get_one(&key(1).into()))?.ok_or("the message exists")?;
    assert_eq!(dead.dead, Some(DeadReason::Expired));
    let again = open_on(&disk.after_power_cut(), &Arc::new(ManualClock::new(before)));
    assert_eq!(block_on(again.get_one(&key(1).into()))?, Some(dead));
    assert_eq!(block_on(again.claim(&claim(10)))?, []);
    Ok(())
}

/// Leases that were held back after a power cut and then ended, ended at the same instant after every later open.
/// Holds: RULE-05.
#[test]
fn a_held_back_lease_ends_at_the_same_instant_after_every_open() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let open = |disk: &SimDisk, boot: &str| {
        let mut options = crate::options(&clock);
        options.boot_id = Some(boot.to_owned());
        EmbeddedStore::open_on(Arc::new(disk.clone()), &options).unwrap()
    };
    let store = open(&disk, "first");
    let mut long = claim(1);
    long.lease = Span::lease(SECOND * 60)?;
    block_on(store.accept(&[message(1, None), message(2, None)]))?;
    let first = block_on(store.claim(&long))?;
    block_on(store.settle(&[first[0].ack()]))?;
    let held = block_on(store.claim(&claim(1)))?;
    // The lease of the claim becomes durable with the next sync.
    block_on(store.accept_one(&message(3, None)))?;
    let disk = disk.after_power_cut();
    clock.advance(SECOND * 2);
    let store = open(&disk, "second");
    let lease = block_on(store.get_one(&held[0].uid.into()))?.and_then(|found| found.lease().copied());
    let until = lease.ok_or("the lease is held back although it has ended")?.until;
    assert_eq!(until, Clock::now(&*clock).after(SECOND * 60));
    // Other messages are accepted and claimed before and after that instant.
    block_on(store.accept_one(&message(4, None)))?;
    clock.advance(SECOND * 60);
    let claimed = block_on(store.claim(&claim(10)))?;
    assert_eq!(claimed.iter().map(|delivery| delivery.attempts).collect::<Vec<_>>(), [1, 0, 0]);
    block_on(store.settle(&[claimed[0].ack()]))?;
    let expected = block_on(store.get(&[held[0].uid.into(), claimed[1].uid.into(), claimed[2].uid.into()]))?;
    for _ in 0..2 {
        let again = open(&disk.after_kill(), "second");
        let found = block_on(again.get(&[held[0].uid.into(), claimed[1].uid.into(), claimed[2].uid.into()]))?;
        assert_eq!(found, expected);
    }
    Ok(())
}
