//! A full disk: calls that need space are rejected at once with the reason, all others continue, and the store opens.

use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use oncebox_core::limits::{RECORD_OPS_MAX, RECORD_VALUE_BYTES_MAX};
use oncebox_core::{
    Accepted, Batch, Bound, Budget, Claim, Clock, Delivery, Error, ErrorKind, Key, MessageState, Namespace,
    NewMessage, Owner, Payload, RecordId, RecordKind, RecordOp, RecordOutcome, RecordValue, RecordVersion,
    Scope, Settled, Span, Store, StoreExt, Topic, Verdict, WhenFull, WriteCondition,
};
use oncebox_store_embedded::{Durability, EmbeddedStore};
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::failing_disk::{Call, FailingDisk, Fault, FaultKind};
use crate::{log, open_on, options};

/// How long a test waits for a disk that is retried once a second.
const LIMIT: Duration = Duration::from_secs(60);

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("source", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 900]).unwrap())
}

fn claim(batch: u32) -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
}

fn small(id: usize) -> NewMessage {
    let mut message = message(id);
    message.content.payload = Payload::default();
    message
}

/// Sends messages until the store is full. Returns how many were accepted, and the rejection.
fn fill(store: &EmbeddedStore, first: usize) -> (usize, Accepted) {
    fill_with(store, first, message)
}

fn fill_with(
    store: &EmbeddedStore,
    first: usize,
    message: impl Fn(usize) -> NewMessage,
) -> (usize, Accepted) {
    for id in first..first + 10_000 {
        match block_on(store.accept_one(&message(id))).unwrap() {
            Accepted::New { .. } => {}
            other => return (id, other),
        }
    }
    panic!("the disk is full, but 10,000 messages were accepted");
}

pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Holds: RULE-27.
#[test]
fn every_caller_is_rejected_at_once_with_the_bound() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    disk.set_full(true);
    let (accepted, full) = fill(&store, 0);
    let Accepted::Saturated { bound, .. } = full else { panic!("{full:?}") };
    assert_eq!((bound.name, bound.used), (Bound::DISK_BYTES, bound.limit));
    assert!(bound.used >= 64 << 10, "{bound:?}");
    for id in 0..100 {
        let rejected = at_once(store.accept_one(&message(accepted + id))).ok_or("the call waits")??;
        assert!(matches!(rejected, Accepted::Saturated { .. }), "{rejected:?}");
    }
    let usage = block_on(store.usage())?;
    assert_eq!(usage.fullest().map(|bound| bound.name), Some(Bound::DISK_BYTES));
    assert_eq!(usage.problem, None, "the bound is reason enough");
    // Receiving, settling and reading continue.
    let acks: Vec<_> = block_on(store.claim(&claim(20)))?.iter().map(Delivery::ack).collect();
    assert_eq!(acks.len(), 20);
    assert!(block_on(store.settle(&acks))?.iter().all(|settled| *settled == Settled::Done));
    assert_eq!(block_on(store.counts(&Scope::all(Namespace::Inbox)))?.done, 20);
    Ok(())
}

fn put(id: &str, bytes: usize) -> RecordOp {
    const KIND: RecordKind = RecordKind::new("state", 1_000, WhenFull::Refuse);
    let (id, value) = (RecordId::new(id).unwrap(), RecordValue::new(vec![b'v'; bytes]).unwrap());
    RecordOp::Put { kind: KIND, id, value, condition: WriteCondition::Always, keep: None }
}

/// An operator can stop a topic when the disk is full, which is when it is needed.
#[test]
fn small_records_are_written_while_the_disk_is_full() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let mut options = options(&clock);
    options.segment_bytes = 1 << 20;
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options)?;
    disk.set_full(true);
    fill(&store, 0);
    for number in 1..=3 {
        let written = block_on(store.record(put("a", 200)))?;
        assert!(matches!(written, RecordOutcome::Written(_)), "write {number}: {written:?}");
    }
    Ok(())
}

/// The largest call of all: every record has the maximum size, and segments are much smaller.
#[test]
fn a_call_with_a_hundred_of_the_largest_records_is_executed() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let puts: Vec<_> = (0..RECORD_OPS_MAX).map(|id| put(&id.to_string(), RECORD_VALUE_BYTES_MAX)).collect();
    for _ in 0..2 {
        let outcomes = block_on(store.records(&puts))?;
        assert!(outcomes.iter().all(|outcome| matches!(outcome, RecordOutcome::Written(_))));
    }
    drop(store);
    let store = open_on(&disk.after_kill(), &clock);
    let outcomes = block_on(store.records(&puts[..1]))?;
    assert_eq!(outcomes, [RecordOutcome::Written(RecordVersion(2 * RECORD_OPS_MAX as u64 + 1))]);
    Ok(())
}

/// Another error than a lack of space is reported as what it is.
#[test]
fn too_many_open_files_are_not_reported_as_a_full_disk() -> TestResult {
    let fault = Fault { calls: &[Call::Create], nth: 5, kind: FaultKind::TooManyFiles, persistent: true };
    let (disk, clock) = (FailingDisk::new(fault), Arc::new(ManualClock::default()));
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options(&clock))?;
    let rejected = (0..1_000).find_map(|id| block_on(store.accept_one(&message(id))).err());
    let error = rejected.ok_or("no segment can be created, but 1,000 messages were accepted")?;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("limit of open files"), "{error}");
    let usage = block_on(store.usage())?;
    assert!(usage.bounds.iter().any(|bound| bound.name == Bound::DISK_BYTES), "{usage:?}");
    assert!(usage.problem.is_some_and(|problem| problem.contains("limit of open files")));
    assert_eq!(block_on(store.claim(&claim(10)))?.len(), 10);
    Ok(())
}

/// However often the process is killed while the disk is full: the store opens, has lost nothing, and workers continue.
/// Also if the end of the journal was torn.
/// Holds: RULE-13, RULE-27.
#[test]
fn a_store_opens_after_every_kill_while_the_disk_is_full() -> TestResult {
    let (mut disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    disk.set_full(true);
    let (accepted, _) = fill(&store, 0);
    drop(store);
    let (mut done, mut torn) = (0, 0);
    for round in 0..12 {
        disk = disk.after_kill();
        disk.set_full(true);
        if round % 4 == 3 {
            let (segment, end) = disk.newest_segment();
            // The record of the last open, or of what followed it: nothing that was confirmed to a worker.
            disk.flip(&segment, end - 10);
            torn += 1;
        }
        let store = open_on(&disk, &clock);
        let counts = block_on(store.counts(&Scope::all(Namespace::Inbox)))?;
        let known = usize::try_from(counts.done + counts.ready + counts.leased + counts.waiting)?;
        assert!(known >= accepted, "{known} of {accepted} are known in round {round}");
        assert!(counts.done >= done, "round {round}");
        if round % 4 < 2 {
            let acks: Vec<_> = block_on(store.claim(&claim(5)))?.iter().map(Delivery::ack).collect();
            block_on(store.settle(&acks))?;
            done += acks.len() as u64;
        }
        // The state after the next kill is copied while the store is still open.
        let left = disk.after_kill();
        drop(store);
        disk = left;
    }
    assert!(done > 0 && torn == 3);
    disk.set_full(false);
    let store = open_on(&disk, &clock);
    block_on(async {
        let started = uptime();
        while uptime().saturating_sub(started) < Duration::from_secs(60) {
            if let Accepted::New { .. } = store.accept_one(&message(100_000)).await? {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err("nothing is accepted although there is space again".into())
    })
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let started = uptime();
    while !holds() {
        assert!(uptime().saturating_sub(started) < LIMIT, "{what}: it does not happen");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// The result of a call, which must return.
fn result_of<T>(call: impl Future<Output = T>) -> T {
    struct Caller(Thread);
    impl Wake for Caller {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let (mut call, started) = (pin!(call), uptime());
    let waker = Waker::from(Arc::new(Caller(std::thread::current())));
    loop {
        if let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(&waker)) {
            return answer;
        }
        assert!(uptime().saturating_sub(started) < LIMIT, "a call does not return");
        std::thread::park_timeout(LIMIT);
    }
}

/// Claims as many messages as possible and releases them, until claims are rejected. Returns that rejection.
fn exhaust(store: &EmbeddedStore) -> Error {
    for _ in 0..10_000 {
        let deliveries = match block_on(store.claim(&claim(10_000))) {
            Ok(deliveries) => deliveries,
            Err(rejected) => return rejected,
        };
        assert_ne!(deliveries, [], "a claim that is not rejected gets at least one message");
        let releases: Vec<_> = deliveries.iter().map(|delivery| delivery.settle(Verdict::Release)).collect();
        let settled = block_on(store.settle(&releases)).expect("claimed messages can be settled");
        assert!(settled.iter().all(|settled| *settled == Settled::Released), "{settled:?}");
    }
    panic!("the disk is full, but 10,000 claims succeeded");
}

/// Extends a lease until there is no space for extensions either.
fn exhaust_by_extensions(store: &EmbeddedStore, clock: &ManualClock, held: &Delivery) {
    let rejected = (0..1_000).find_map(|_| {
        clock.advance(Duration::from_millis(1));
        block_on(store.extend(&[held.extend(claim(1).lease)])).err()
    });
    let rejected = rejected.expect("1,000 extensions need more space than there is");
    assert!(rejected.to_string().contains("the disk is full"), "{rejected}");
}

/// A claim is reduced to the space that is left, and rejected only if not even one message can be claimed. Claimed
/// messages can still be settled then, however many there are, and everything can be read.
/// Holds: RULE-27.
#[test]
fn a_claim_is_reduced_to_the_space_that_is_left() -> TestResult {
    const HELD: u32 = 150;
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    disk.set_full(true);
    let (accepted, _) = fill_with(&store, 0, small);
    let mut held = block_on(store.claim(&claim(HELD)))?;
    assert_eq!(held.len(), HELD as usize);
    let rejected = exhaust(&store);
    assert_eq!(rejected.kind(), ErrorKind::Unavailable);
    assert!(rejected.to_string().contains("the disk is full"), "{rejected}");
    let one = block_on(store.claim(&claim(1))).unwrap_err();
    assert_eq!(one.to_string(), rejected.to_string(), "no smaller claim would have been granted");
    // Settlements continue, also in one call with a claim that gets nothing.
    let (last, first) = (held.pop().ok_or("a delivery")?, held.pop().ok_or("another")?);
    let acks: Vec<_> = held.iter().map(Delivery::ack).collect();
    assert!(block_on(store.settle(&acks))?.iter().all(|settled| *settled == Settled::Done));
    exhaust(&store);
    let worked = block_on(store.work(&[first.ack()], &[claim(10_000)]))?;
    assert_eq!((worked.settled, worked.deliveries), (vec![Settled::Done], vec![Vec::new()]));
    // When extensions have used up their space, too, reading and maintenance continue.
    exhaust_by_extensions(&store, &clock, &last);
    let (done, ready) = (u64::from(HELD) - 1, accepted as u64 - u64::from(HELD));
    let counts = block_on(store.counts(&Scope::all(Namespace::Inbox)))?;
    assert_eq!((counts.done, counts.leased, counts.ready), (done, 1, ready));
    assert_eq!(
        block_on(store.get_one(&first.uid.into()))?.map(|found| found.state),
        Some(MessageState::Done)
    );
    assert_eq!(block_on(store.usage())?.fullest().map(|bound| bound.name), Some(Bound::DISK_BYTES));
    assert_eq!(block_on(store.maintain(Budget::new(1_000)))?.forgotten, 0);
    disk.set_full(false);
    let claimed = Cell::new(0);
    until("a claim of all messages", || {
        let more = block_on(store.claim(&claim(10_000))).map_or(0, |deliveries| deliveries.len());
        claimed.set(claimed.get() + more as u64);
        claimed.get() == ready
    });
    assert_eq!(block_on(store.settle(&[last.ack()]))?, [Settled::Done]);
    Ok(())
}

/// Timer events are visible to every reader, take no space once there is none left, and leave the store able to open.
/// Holds: RULE-12, RULE-27.
#[test]
fn timers_work_when_all_space_is_used() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let started = Clock::now(&*clock);
    let expiring = |id: usize| {
        let mut message = small(id);
        message.content.expires = Some(started.after(Duration::from_secs(60 + id as u64)));
        message
    };
    let messages: Vec<_> = (0..400).map(expiring).collect();
    assert!(block_on(store.accept(&messages))?.iter().all(|accepted| accepted.summary().is_some()));
    disk.set_full(true);
    let (accepted, _) = fill_with(&store, messages.len(), expiring);
    let held = block_on(store.claim(&claim(1)))?.remove(0);
    exhaust(&store);
    exhaust_by_extensions(&store, &clock, &held);
    // A frame has at least 72 bytes, and 8 KiB are reserved for the next open.
    let accepted = accepted as u64;
    assert!(accepted * 72 > 20 << 10, "{accepted} frames fit into the reserve");
    clock.advance(started.after(Duration::from_secs(59)).since(Clock::now(&*clock)));
    for dead in 1..=accepted {
        clock.advance(Duration::from_secs(1));
        let counts = block_on(store.counts(&Scope::all(Namespace::Inbox)))?;
        assert_eq!((counts.dead, counts.ready), (dead, accepted - dead));
    }
    let left = disk.after_kill();
    left.set_full(true);
    let again = open_on(&left, &clock);
    assert_eq!(block_on(again.counts(&Scope::all(Namespace::Inbox)))?.dead, accepted);
    Ok(())
}

/// A backlog of any length can be processed while the disk is full, although settlements need space, too: segments
/// whose messages are settled are reclaimed. That is no change of state, and not logged.
/// Holds: RULE-27.
#[test]
fn a_backlog_can_be_processed_while_the_disk_is_full() -> TestResult {
    const BACKLOG: usize = 2_000;
    log::capture();
    for durability in [Durability::Sync, Durability::Os] {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let mut options = options(&clock);
        options.durability = durability;
        let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options)?;
        let first = disk.newest_segment().0;
        for id in 0..BACKLOG {
            assert!(matches!(block_on(store.accept_one(&message(id)))?, Accepted::New { .. }));
        }
        disk.set_full(true);
        let (accepted, _) = fill(&store, BACKLOG);
        assert!(!disk.was_wiped(&first));
        for done in 0..accepted {
            let delivery = result_of(store.claim(&claim(1)))?.pop();
            let delivery = delivery.ok_or_else(|| format!("nothing is left after {done} of {accepted}"))?;
            assert_eq!(delivery.key.id.as_str(), done.to_string());
            assert_eq!(result_of(store.settle(&[delivery.ack()]))?, [Settled::Done]);
            if done == accepted / 3 {
                assert!(disk.was_wiped(&first), "{durability:?}: the first segment was reclaimed");
                assert_eq!(log::about(&disk).len(), 1, "{:?}", log::about(&disk));
            }
        }
        let killed = disk.after_kill();
        killed.set_full(true);
        let counts = block_on(open_on(&killed, &clock).counts(&Scope::all(Namespace::Inbox)))?;
        assert_eq!((counts.done, counts.ready), (accepted as u64, 0), "{durability:?}");
    }
    Ok(())
}

/// The log has one line when the journal cannot grow any more and one when it has space again, however often the disk
/// is retried in between, and whatever the journal reclaims.
/// Holds: RULE-27.
#[test]
fn the_log_has_one_line_for_each_change() -> TestResult {
    log::capture();
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    for id in 0..500 {
        block_on(store.accept_one(&message(id)))?;
    }
    assert_eq!(log::about(&disk), []);
    disk.set_full(true);
    let (accepted, _) = fill(&store, 500);
    // The disk is retried once a second.
    until("a retry", || disk.rejected_writes() >= 3);
    assert!(matches!(block_on(store.accept_one(&message(accepted)))?, Accepted::Saturated { .. }));
    let lines = log::about(&disk);
    let [full] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(full.level, tracing::Level::WARN);
    assert!(full.text().contains("cannot grow") && full.text().contains("the disk is full"), "{full:?}");
    let left = disk.after_kill();
    disk.set_full(false);
    until("accepting", || matches!(block_on(store.accept_one(&message(accepted))), Ok(Accepted::New { .. })));
    let lines = log::about(&disk);
    let [_, again] = &lines[..] else { panic!("{lines:?}") };
    assert_eq!(again.level, tracing::Level::INFO);
    assert!(again.text().contains("has space again"), "{again:?}");
    // Opening on a full disk logs the line, too.
    left.set_full(true);
    let store = open_on(&left, &clock);
    until("a retry", || left.rejected_writes() >= 3);
    let lines = log::about(&left);
    assert!(lines.len() == 1 && lines[0].text().contains("cannot grow"), "{lines:?}");
    drop(store);
    Ok(())
}
