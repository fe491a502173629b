//! Durability modes that confirm before the sync: a kill loses nothing, a power cut only the most recent calls.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Key, MessageQuery, MessageRef, MessageState, Namespace, NewMessage, Owner, Payload,
    ReadyTopics, Scope, Span, Store, StoreExt, Topic,
};
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::oracle::{Oracle, Outcome, Status};
use crate::{open_on, options};

/// An interval that does not end during a test.
const LONG: Duration = Duration::from_secs(60 * 60);
/// How long a test waits for a sync that is due after some milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A store that confirms writes before it syncs them, and the expected state.
struct UnsyncedStore {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    store: EmbeddedStore,
    oracle: Oracle,
}

impl UnsyncedStore {
    fn open(durability: Durability) -> Self {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let mut options = options(&clock);
        options.durability = durability;
        let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options).unwrap();
        Self { disk, clock, store, oracle: Oracle::default() }
    }

    fn step(&mut self, step: usize) {
        let outcome = match step % 5 {
            0 | 2 => self.oracle.accept(&self.store, 10),
            3 => self.oracle.operate(&self.store),
            _ => self.oracle.work(&self.store),
        };
        assert_eq!(outcome, Outcome::Confirmed, "step {step}");
        self.clock.advance(Duration::from_millis(10));
    }

    /// How many calls would survive a power cut now. The survivors must be a prefix of the calls, each complete.
    fn left_of(&self, history: &[Oracle]) -> usize {
        let found = self.oracle.found(&open_on(&self.disk.after_power_cut(), &self.clock));
        let fits = |past: &Oracle| found.iter().all(|(id, status)| past.status(*id) == *status);
        history.iter().rposition(fits).expect("the recovered state is the state after one of the calls")
    }
}

/// Holds: RULE-13.
#[test]
fn a_kill_loses_no_confirmed_write() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut unsynced = UnsyncedStore::open(durability);
        for step in 0..30 {
            unsynced.step(step);
            unsynced.oracle.clone().reconcile(&open_on(&unsynced.disk.after_kill(), &unsynced.clock));
        }
    }
}

#[test]
fn a_power_cut_leaves_a_prefix_of_the_calls() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut unsynced = UnsyncedStore::open(durability);
        let mut history = vec![unsynced.oracle.clone()];
        let (mut left, mut lost) = (0, 0);
        for step in 0..40 {
            unsynced.step(step);
            history.push(unsynced.oracle.clone());
            let now = unsynced.left_of(&history);
            assert!(now >= left, "durable calls stay durable");
            lost = lost.max(history.len() - 1 - now);
            left = now;
        }
        // A full segment is synced before the next one is started; nothing else requests a sync.
        assert!(left > 0 && lost > 0, "{left} survived, up to {lost} were lost");
    }
}

/// A clean close syncs in every durability mode.
#[test]
fn a_power_cut_after_a_clean_close_loses_nothing() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut unsynced = UnsyncedStore::open(durability);
        (0..7).for_each(|step| unsynced.step(step));
        drop(unsynced.store);
        unsynced.oracle.reconcile(&open_on(&unsynced.disk.after_power_cut(), &unsynced.clock));
    }
}

/// The interval is counted from the confirmation, whether or not other calls follow.
#[test]
fn writes_older_than_the_interval_are_durable() {
    for busy in [false, true] {
        let mut unsynced = UnsyncedStore::open(Durability::Interval(Duration::from_millis(20)));
        assert_eq!(unsynced.oracle.accept(&unsynced.store, 1), Outcome::Confirmed);
        let started = uptime();
        let is_durable = |unsynced: &UnsyncedStore| {
            let left = open_on(&unsynced.disk.after_power_cut(), &unsynced.clock);
            unsynced.oracle.found(&left)[&0] != Status::Absent
        };
        while !is_durable(&unsynced) {
            assert!(uptime().saturating_sub(started) < LIMIT, "nothing was synced");
            if busy {
                assert_eq!(unsynced.oracle.accept(&unsynced.store, 1), Outcome::Confirmed);
            } else {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// Whether a call returns without waiting.
fn returns_at_once<T>(call: impl Future<Output = T>) -> bool {
    matches!(pin!(call).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
}

/// A call that writes nothing waits for the sync of the data that it read, not only for the write of that data.
/// Holds: RULE-13.
#[test]
fn a_call_that_writes_nothing_waits_for_the_sync() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let key = Key::inbox("durability", "1")?;
    let message = NewMessage::new(key.clone(), Topic::new("topic")?, Payload::default());
    let target = [MessageRef::from(key)];
    let lease = Span::lease(LONG)?;
    let claim = Claim::new(Namespace::Inbox, Owner::new(1)?, lease, Batch::ONE);
    block_on(store.accept_one(&message))?;
    let delivery = block_on(store.claim(&claim))?.remove(0);
    {
        let _stalled = disk.stall_syncs();
        assert!(!returns_at_once(store.settle(&[delivery.ack()])));
        let written = |disk: &SimDisk| {
            let left = open_on(&disk.after_kill(), &clock);
            block_on(left.get(&target)).unwrap()[0].as_ref().map(|found| found.state)
                == Some(MessageState::Done)
        };
        let started = uptime();
        while !written(&disk) {
            assert!(uptime().saturating_sub(started) < LIMIT, "the acknowledgement was not written");
        }
        for _ in 0..50 {
            assert!(!returns_at_once(store.get(&target)), "a read of data that is written but not synced");
            assert!(!returns_at_once(store.accept_one(&message)), "a duplicate of an unsynced message");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    let done = block_on(store.get(&target))?.remove(0).ok_or("the message exists")?;
    assert_eq!(done.state, MessageState::Done);
    Ok(())
}

/// A read of data that is not on disk yet waits until it is.
/// Holds: RULE-13.
#[test]
fn a_read_waits_until_its_data_is_durable() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let key = Key::inbox("durability", "1")?;
    let message = NewMessage::new(key.clone(), Topic::new("topic")?, Payload::default());
    let (query, topics) = (MessageQuery::all(Namespace::Inbox), ReadyTopics::first(Namespace::Inbox));
    let scope = Scope::all(Namespace::Inbox);
    let target = [MessageRef::from(key)];
    block_on(store.usage())?;
    assert!(returns_at_once(store.usage()), "everything is on disk");
    {
        let _stalled = disk.stall();
        assert!(!returns_at_once(store.accept_one(&message)));
        assert!(!returns_at_once(store.get(&target)));
        assert!(!returns_at_once(store.page(&query)));
        assert!(!returns_at_once(store.counts(&scope)));
        assert!(!returns_at_once(store.ready_topics(&topics)));
        assert!(!returns_at_once(store.usage()));
    }
    let (named, usage) = (block_on(store.ready_topics(&topics))?, block_on(store.usage())?);
    assert_eq!(named, [message.content.topic]);
    let left = open_on(&disk.after_power_cut(), &clock);
    assert_eq!(block_on(left.ready_topics(&topics))?, named);
    assert_eq!(block_on(left.usage())?, usage);
    assert_eq!(usage.fullest().map(|bound| bound.used), Some(1));
    Ok(())
}
