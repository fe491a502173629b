//! Reclaiming segments of the journal.

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

/// Fills a store, finishes and removes all messages, and waits until the directory shrinks.
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
        assert_eq!(store.maintain(Budget::new(1_000)).await?.forgotten, 100);
        TestResult::Ok(())
    })?;
    let limit = uptime() + Duration::from_secs(60);
    while uptime() < limit {
        if disk.bytes() <= SMALL {
            return Ok(store);
        }
        std::thread::yield_now();
    }
    Err(format!("the directory still has {} bytes", disk.bytes()).into())
}

/// When all messages are finished and removed, the directory shrinks without further calls.
#[test]
fn the_journal_is_reclaimed_when_idle() -> TestResult {
    reclaimed(&SimDisk::default(), &Arc::new(ManualClock::default()))?;
    Ok(())
}

/// A reclaimed segment is known to be unneeded even if the last frame is damaged: the frame is truncated, and the store
/// opens.
#[test]
fn a_damaged_last_frame_is_truncated_even_after_segments_were_reclaimed() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = reclaimed(&disk, &clock)?;
    let left = disk.after_kill();
    drop(store);
    let (segment, end) = left.newest_segment();
    left.flip(&segment, end);
    let again = open_on(&left, &clock);
    assert_eq!(
        again.torn_tail().map(|tail| (&tail.segment, tail.offset + tail.bytes)),
        Some((&segment, end as u64 + 1))
    );
    Ok(())
}

/// Only recovery reads a full segment: its page cache is released once it is durable.
#[test]
fn the_cache_of_full_segments_is_released() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(async {
        for id in 0..100 {
            store.accept_one(&message(id)).await?;
        }
        // The last tasks of the allocator are done before the store is closed.
        store.close().await
    })?;
    let (durable, other) = disk.cache_releases();
    // A megabyte in segments of 64 KiB.
    assert!((10..=32).contains(&durable) && other == 0, "{durable} durable segments, {other} others");
    Ok(())
}

/// A number is assigned only once, even when no trace of it is left in the journal.
#[test]
fn numbers_are_not_reused() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(async {
        for id in 0..10 {
            store.accept_one(&message(id)).await?;
        }
        let acks: Vec<_> = store.claim(&claim()).await?.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        clock.advance(Duration::from_secs(11 * 60));
        assert_eq!(store.maintain(Budget::new(1_000)).await?.forgotten, 10);
        TestResult::Ok(())
    })?;
    drop(store);
    // Each open starts a segment, and retires older ones.
    for _ in 0..6 {
        drop(open_on(&disk, &clock));
    }
    let store = open_on(&disk, &clock);
    block_on(store.accept_one(&message(10)))?;
    let number = block_on(store.claim(&claim()))?.remove(0).number;
    assert!(number.0 > 10, "{number:?}");
    Ok(())
}

/// A file found at open may have been created by a process that ended before the file's name was durable.
#[test]
fn a_blank_file_is_used_only_when_its_name_is_durable() -> TestResult {
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
    disk.sync_directory()?;
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

/// The longest lease ever granted is known after a power cut, even if the segment that recorded it was reclaimed.
/// Holds: RULE-05.
#[test]
fn the_boot_record_outlives_its_segment() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let open = |disk: &SimDisk, boot: &str| {
        let mut options = crate::options(&clock);
        options.boot_id = Some(boot.to_owned());
        EmbeddedStore::open_on(Arc::new(disk.clone()), &options)
    };
    let store = open(&disk, "first")?;
    let first = disk.files();
    block_on(async {
        // The first lease is the longest; all others are 1 s.
        let mut short = claim();
        short.lease = Span::lease(Duration::from_secs(1))?;
        for round in 0..100 {
            store.accept_one(&message(round)).await?;
            let claim = if round == 0 { claim() } else { short.clone() };
            let acks: Vec<_> = store.claim(&claim).await?.iter().map(Delivery::ack).collect();
            store.settle(&acks).await?;
            clock.advance(Duration::from_secs(3_600));
            store.maintain(Budget::new(1_000)).await?;
        }
        store.accept_one(&message(1_000)).await?;
        assert_eq!(store.claim(&short).await?.len(), 1);
        TestResult::Ok(())
    })?;
    assert!(first.iter().any(|name| name != "store" && disk.was_wiped(name)), "nothing was reclaimed");
    let left = open(&disk.after_power_cut(), "second")?;
    clock.advance(Duration::from_secs(29));
    assert_eq!(block_on(left.claim(&claim()))?, [], "another process may hold the lease for 30 s");
    clock.advance(Duration::from_secs(1));
    assert_eq!(block_on(left.claim(&claim()))?.len(), 1);
    Ok(())
}
