//! What reclaim gives back.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Budget, Claim, Delivery, Hold, Keep, Key, Namespace, NewMessage, Owner, Payload, Span, Store,
    StoreExt, Topic,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_store_embedded::disk::Disk;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::open_on;

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("source", id.to_string()).unwrap();
    let payload = Payload::new(vec![b'x'; 10_000]).unwrap();
    let mut message = NewMessage::new(key, Topic::new("topic").unwrap(), payload);
    message.policy.hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::ZERO) };
    message
}

fn claim() -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(100).unwrap())
}

const SMALL: usize = 5 * (64 << 10);

/// Fills a store, finishes and forgets everything, and waits until the directory shrinks.
fn reclaimed(
    disk: &SimDisk,
    clock: &Arc<ManualClock>,
) -> Result<EmbeddedStore, Box<dyn Error + Send + Sync>> {
    let store = open_on(disk, clock);
    block_on(async {
        for id in 0..100 {
            store.accept_one(&message(id)).await?;
        }
        assert!(disk.bytes() > 2 * SMALL, "{} bytes", disk.bytes());
        let acks: Vec<_> = store.claim(&claim()).await?.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        clock.advance(Duration::from_secs(11 * 60));
        assert_eq!(store.upkeep(Budget::new(1_000)).await?.forgotten, 100);
        TestResult::Ok(())
    })?;
    let limit = uptime() + Duration::from_secs(60);
    while uptime() < limit {
        if disk.bytes() <= SMALL {
            return Ok(store);
        }
        std::thread::yield_now();
    }
    Err(format!("{} bytes are left", disk.bytes()).into())
}

/// When everything is finished and forgotten, the directory shrinks although nobody calls any more.
#[test]
fn the_journal_is_reclaimed_at_rest() -> TestResult {
    reclaimed(&SimDisk::default(), &Arc::new(ManualClock::default()))?;
    Ok(())
}

/// That a segment is not needed any more is known also if the last frame is damaged: it is cut off, and the store opens.
#[test]
fn a_damaged_last_frame_is_cut_off_also_after_segments_were_given_back() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = reclaimed(&disk, &clock)?;
    let left = disk.after_kill();
    drop(store);
    let (segment, end) = left.newest_segment();
    left.flip(&segment, end);
    let again = open_on(&left, &clock);
    assert_eq!(
        again.cut().map(|cut| (&cut.segment, cut.offset + cut.bytes)),
        Some((&segment, end as u64 + 1))
    );
    Ok(())
}

/// Only a recovery reads a segment that is full: the memory that holds it is given back, once it is on disk.
#[test]
fn full_segments_are_let_go() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(async {
        for id in 0..100 {
            store.accept_one(&message(id)).await?;
        }
        // The last chores are done before it is closed.
        store.close().await
    })?;
    let (durable, other) = disk.let_go();
    // A megabyte in segments of 64 KiB.
    assert!((10..=32).contains(&durable) && other == 0, "{durable} durable segments, {other} others");
    Ok(())
}

/// A number is given out once, also when nothing in the journal tells any more that it was.
#[test]
fn numbers_do_not_come_again() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(async {
        for id in 0..10 {
            store.accept_one(&message(id)).await?;
        }
        let acks: Vec<_> = store.claim(&claim()).await?.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        clock.advance(Duration::from_secs(11 * 60));
        assert_eq!(store.upkeep(Budget::new(1_000)).await?.forgotten, 10);
        TestResult::Ok(())
    })?;
    drop(store);
    // Each opening begins a segment, and gives up older ones.
    for _ in 0..6 {
        drop(open_on(&disk, &clock));
    }
    let store = open_on(&disk, &clock);
    block_on(store.accept_one(&message(10)))?;
    let number = block_on(store.claim(&claim()))?.remove(0).number;
    assert!(number.0 > 10, "{number:?}");
    Ok(())
}

/// A file that an opening finds may have been made by a process that ended before the file's name was on disk.
#[test]
fn a_blank_file_is_used_only_when_its_name_is_on_disk() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    drop(open_on(&disk, &clock));
    for name in disk.names()? {
        let file = disk.open(&name)?;
        let mut bytes = vec![0; usize::try_from(file.size()?)?];
        file.read_at(0, &mut bytes)?;
        if bytes.iter().all(|byte| *byte == 0) {
            disk.remove(&name)?;
        }
    }
    disk.sync_names()?;
    for name in ["00000090.seg", "00000091.seg"] {
        let file = disk.create(name)?;
        file.write_at(0, &vec![0; 64 << 10])?;
        file.sync()?;
    }
    let store = open_on(&disk, &clock);
    block_on(store.accept_one(&message(1)))?;
    let again = open_on(&disk.after_power_cut(), &clock);
    assert_eq!(block_on(again.claim(&claim()))?.len(), 1);
    Ok(())
}

/// The longest lease ever granted is known after a power cut, also when the segment in which that was noted is long gone.
/// Holds: RULE-05.
#[test]
fn what_an_opening_must_know_outlives_its_segment() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let open = |disk: &SimDisk, boot: &str| {
        let mut options = crate::options(&clock);
        options.boot_id = Some(boot.to_owned());
        EmbeddedStore::open_on(Arc::new(disk.clone()), &options)
    };
    let store = open(&disk, "first")?;
    let first = disk.files();
    block_on(async {
        // The first claim is the longest; the churn claims for a second.
        let mut short = claim();
        short.lease = Span::lease(Duration::from_secs(1))?;
        for round in 0..100 {
            store.accept_one(&message(round)).await?;
            let claim = if round == 0 { claim() } else { short.clone() };
            let acks: Vec<_> = store.claim(&claim).await?.iter().map(Delivery::ack).collect();
            store.settle(&acks).await?;
            clock.advance(Duration::from_secs(3_600));
            store.upkeep(Budget::new(1_000)).await?;
        }
        store.accept_one(&message(1_000)).await?;
        assert_eq!(store.claim(&short).await?.len(), 1);
        TestResult::Ok(())
    })?;
    assert!(first.iter().any(|name| name != "store" && disk.was_wiped(name)), "nothing was reclaimed");
    let left = open(&disk.after_power_cut(), "second")?;
    clock.advance(Duration::from_secs(29));
    assert_eq!(block_on(left.claim(&claim()))?, [], "somebody may hold it for 30 s");
    clock.advance(Duration::from_secs(1));
    assert_eq!(block_on(left.claim(&claim()))?.len(), 1);
    Ok(())
}
