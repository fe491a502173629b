//! A disk without room: every caller that needs some is refused at once and told why, all others go on, and the store opens.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Bound, Claim, Delivery, Key, Kind, Namespace, NewMessage, Owner, Payload, Scope,
    Settled, Span, Store, StoreExt, Topic,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::failing::{Call, FailingDisk, Fault, Mishap};
use crate::{open_on, options};

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("source", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 900]).unwrap())
}

fn claim(batch: u32) -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
}

/// Takes in messages until the store is full. Answers how many came in, and the refusal.
fn fill(store: &EmbeddedStore, first: usize) -> (usize, Accepted) {
    for id in first..first + 10_000 {
        match block_on(store.accept_one(&message(id))).unwrap() {
            Accepted::New { .. } => {}
            other => return (id, other),
        }
    }
    panic!("the disk is full, and ten thousand messages came in");
}

fn at_once<T>(call: impl Future<Output = T>) -> Option<T> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

/// Holds: RULE-27.
#[test]
fn every_caller_is_refused_at_once_and_told_the_bound() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    disk.set_full(true);
    let (accepted, full) = fill(&store, 0);
    let Accepted::Saturated { bound, .. } = full else { panic!("{full:?}") };
    assert_eq!((bound.name, bound.used), (Bound::DISK_BYTES, bound.limit));
    assert!(bound.used >= 64 << 10, "{bound:?}");
    for id in 0..100 {
        let refused = at_once(store.accept_one(&message(accepted + id))).ok_or("a caller waits")??;
        assert!(matches!(refused, Accepted::Saturated { .. }), "{refused:?}");
    }
    let usage = block_on(store.usage())?;
    assert_eq!(usage.fullest().map(|bound| bound.name), Some(Bound::DISK_BYTES));
    // Receiving and settling go on, and reading too.
    let acks: Vec<_> = block_on(store.claim(&claim(20)))?.iter().map(Delivery::ack).collect();
    assert_eq!(acks.len(), 20);
    assert!(block_on(store.settle(&acks))?.iter().all(|settled| *settled == Settled::Done));
    assert_eq!(block_on(store.counts(&Scope::all(Namespace::Inbox)))?.done, 20);
    Ok(())
}

/// What is not a lack of room is not called so.
#[test]
fn too_many_open_files_are_not_called_a_full_disk() -> TestResult {
    let fault = Fault { calls: &[Call::Create], nth: 5, mishap: Mishap::TooManyFiles, lasting: true };
    let (disk, clock) = (FailingDisk::new(fault), Arc::new(ManualClock::default()));
    let store = EmbeddedStore::open_on(Arc::new(disk.clone()), &options(&clock))?;
    let refused = (0..1_000).find_map(|id| block_on(store.accept_one(&message(id))).err());
    let error = refused.ok_or("no segment can be made, and a thousand messages came in")?;
    assert_eq!(error.kind(), Kind::Unavailable);
    assert!(error.to_string().contains("limit of open files"), "{error}");
    let usage = block_on(store.usage())?;
    assert!(usage.bounds.iter().any(|bound| bound.name == Bound::DISK_BYTES), "{usage:?}");
    assert_eq!(block_on(store.claim(&claim(10)))?.len(), 10);
    Ok(())
}

/// However often the process ends while the disk is full: the store opens, knows everything, and workers go on. Also if
/// the end of the journal was torn.
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
            // The mark of the last opening, or of what came after it: nothing that a worker was answered.
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
        // What the next kill leaves is taken while the store is still open.
        let left = disk.after_kill();
        drop(store);
        disk = left;
    }
    assert!(done > 0 && torn == 3);
    disk.set_full(false);
    let store = open_on(&disk, &clock);
    block_on(async {
        let began = uptime();
        while uptime().saturating_sub(began) < Duration::from_secs(60) {
            if let Accepted::New { .. } = store.accept_one(&message(100_000)).await? {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err("nothing is taken in although there is room again".into())
    })
}
