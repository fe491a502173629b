//! Answers before the sync: the end of the process loses nothing, a power cut only the end of the history.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Key, Namespace, NewMessage, Owner, Payload, Query, ReadyTopics, Ref, Scope, Span, State,
    Store, StoreExt, Topic,
};
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::ledger::{Course, Ledger, Place};
use crate::{open_on, options};

/// An interval that does not end during a test.
const LONG: Duration = Duration::from_secs(60 * 60);
/// How long a test waits for a sync that is due after some milliseconds.
const LIMIT: Duration = Duration::from_secs(60);

/// A store that answers before it syncs, and what it has answered.
struct Lazy {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    store: EmbeddedStore,
    ledger: Ledger,
}

impl Lazy {
    fn open(durability: Durability) -> Self {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let mut options = options(&clock);
        options.durability = durability;
        let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options).unwrap();
        Self { disk, clock, store, ledger: Ledger::default() }
    }

    fn step(&mut self, step: usize) {
        let course = match step % 5 {
            0 | 2 => self.ledger.accept(&self.store, 10),
            3 => self.ledger.operate(&self.store),
            _ => self.ledger.work(&self.store),
        };
        assert_eq!(course, Course::Answered, "step {step}");
        self.clock.advance(Duration::from_millis(10));
    }

    /// How many calls a power cut now would leave; those that are left are the first ones, each whole.
    fn left_of(&self, history: &[Ledger]) -> usize {
        let found = self.ledger.found(&open_on(&self.disk.after_power_cut(), &self.clock));
        let fits = |past: &Ledger| found.iter().all(|(id, place)| past.place(*id) == *place);
        history.iter().rposition(fits).expect("what is left is the state after one of the calls")
    }
}

/// Holds: RULE-13.
#[test]
fn the_end_of_the_process_loses_nothing_that_was_answered() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut lazy = Lazy::open(durability);
        for step in 0..30 {
            lazy.step(step);
            lazy.ledger.clone().settle_against(&open_on(&lazy.disk.after_kill(), &lazy.clock));
        }
    }
}

#[test]
fn a_power_cut_leaves_the_first_calls_whole() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut lazy = Lazy::open(durability);
        let mut history = vec![lazy.ledger.clone()];
        let (mut left, mut lost) = (0, 0);
        for step in 0..40 {
            lazy.step(step);
            history.push(lazy.ledger.clone());
            let now = lazy.left_of(&history);
            assert!(now >= left, "what was on disk stays there");
            lost = lost.max(history.len() - 1 - now);
            left = now;
        }
        // A segment that is full is synced before the next one is begun; nothing else asks for a sync.
        assert!(left > 0 && lost > 0, "{left} are left, up to {lost} were lost");
    }
}

/// A clean close syncs, whatever an answer waits for.
#[test]
fn a_power_cut_after_a_clean_close_loses_nothing() {
    for durability in [Durability::Interval(LONG), Durability::Os] {
        let mut lazy = Lazy::open(durability);
        (0..7).for_each(|step| lazy.step(step));
        drop(lazy.store);
        lazy.ledger.settle_against(&open_on(&lazy.disk.after_power_cut(), &lazy.clock));
    }
}

/// The interval counts from the answer, whether or not other calls come after it.
#[test]
fn what_is_older_than_the_interval_is_on_disk() {
    for busy in [false, true] {
        let mut lazy = Lazy::open(Durability::Interval(Duration::from_millis(20)));
        assert_eq!(lazy.ledger.accept(&lazy.store, 1), Course::Answered);
        let began = uptime();
        let is_there = |lazy: &Lazy| {
            let left = open_on(&lazy.disk.after_power_cut(), &lazy.clock);
            lazy.ledger.found(&left)[&0] != Place::Absent
        };
        while !is_there(&lazy) {
            assert!(uptime().saturating_sub(began) < LIMIT, "nothing was synced");
            if busy {
                assert_eq!(lazy.ledger.accept(&lazy.store, 1), Course::Answered);
            } else {
                std::thread::park_timeout(Duration::from_millis(1));
            }
        }
    }
}

/// Whether a call answers without waiting for anybody.
fn answers_at_once<T>(call: impl Future<Output = T>) -> bool {
    matches!(pin!(call).poll(&mut Context::from_waker(Waker::noop())), Poll::Ready(_))
}

/// An answer that wrote nothing waits for the sync of what it was read from, not only for its write.
/// Holds: RULE-13.
#[test]
fn an_answer_that_wrote_nothing_waits_for_the_sync() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let key = Key::inbox("durability", "1")?;
    let message = NewMessage::new(key.clone(), Topic::new("topic")?, Payload::default());
    let target = [Ref::from(key)];
    let lease = Span::lease(LONG)?;
    let claim = Claim::new(Namespace::Inbox, Owner::new(1)?, lease, Batch::ONE);
    block_on(store.accept_one(&message))?;
    let delivery = block_on(store.claim(&claim))?.remove(0);
    {
        let _stalled = disk.stall_syncs();
        assert!(!answers_at_once(store.settle(&[delivery.ack()])));
        let written = |disk: &SimDisk| {
            let left = open_on(&disk.after_kill(), &clock);
            block_on(left.get(&target)).unwrap()[0].as_ref().map(|found| found.state) == Some(State::Done)
        };
        let began = uptime();
        while !written(&disk) {
            assert!(uptime().saturating_sub(began) < LIMIT, "the acknowledgement was not written");
        }
        for _ in 0..50 {
            assert!(!answers_at_once(store.get(&target)), "a read of what is written and not on disk");
            assert!(!answers_at_once(store.accept_one(&message)), "a duplicate of what is not on disk");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    let done = block_on(store.get(&target))?.remove(0).ok_or("it is there")?;
    assert_eq!(done.state, State::Done);
    Ok(())
}

/// Whoever reads what is not on disk yet waits until it is.
/// Holds: RULE-13.
#[test]
fn a_read_waits_for_what_it_read() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let key = Key::inbox("durability", "1")?;
    let message = NewMessage::new(key.clone(), Topic::new("topic")?, Payload::default());
    let (query, topics) = (Query::all(Namespace::Inbox), ReadyTopics::first(Namespace::Inbox));
    let scope = Scope::all(Namespace::Inbox);
    let target = [Ref::from(key)];
    block_on(store.usage())?;
    assert!(answers_at_once(store.usage()), "all is on disk");
    {
        let _stalled = disk.stall();
        assert!(!answers_at_once(store.accept_one(&message)));
        assert!(!answers_at_once(store.get(&target)));
        assert!(!answers_at_once(store.page(&query)));
        assert!(!answers_at_once(store.counts(&scope)));
        assert!(!answers_at_once(store.ready_topics(&topics)));
        assert!(!answers_at_once(store.usage()));
    }
    let (named, usage) = (block_on(store.ready_topics(&topics))?, block_on(store.usage())?);
    assert_eq!(named, [message.content.topic]);
    let left = open_on(&disk.after_power_cut(), &clock);
    assert_eq!(block_on(left.ready_topics(&topics))?, named);
    assert_eq!(block_on(left.usage())?, usage);
    assert_eq!(usage.fullest().map(|bound| bound.used), Some(1));
    Ok(())
}
