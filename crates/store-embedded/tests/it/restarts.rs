//! What survives a clean close, a kill of the process, and a power cut.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Delivery, ErrorKind, Key, Namespace, NewMessage, Owner, Payload, Settled,
    Span, Store, StoreExt, Topic, Topics,
};
use oncebox_store_embedded::{Durability, EmbeddedOptions, EmbeddedStore};
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::{log, open_on};

/// How long a test waits for a disk that is retried every second.
const LIMIT: Duration = Duration::from_secs(60);

fn message(id: usize) -> NewMessage {
    let key = Key::inbox("restarts", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(vec![b'x'; 1_000]).unwrap())
}

fn claim(batch: u32) -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(batch).unwrap())
}

/// Holds: RULE-13.
#[test]
fn confirmed_writes_survive_a_power_cut() -> TestResult {
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        for id in 0..50 {
            store.accept_one(&message(id)).await?;
        }
        let deliveries = store.claim(&claim(10)).await?;
        let acks: Vec<_> = deliveries.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        let left = disk.after_power_cut();
        let again = open_on(&left, &clock);
        for id in 0..50 {
            let outcome = again.accept_one(&message(id)).await?;
            assert!(matches!(outcome, Accepted::Duplicate { diverged: false, .. }), "{id}: {outcome:?}");
        }
        assert_eq!(again.claim(&claim(100)).await?.len(), 40);
        Ok(())
    })
}

/// Holds: RULE-05.
#[test]
fn a_lease_survives_a_clean_close_and_fences_are_not_reused() -> TestResult {
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        store.accept(&[message(1), message(2)]).await?;
        let first = store.claim(&claim(1)).await?.remove(0);
        store.close().await?;
        drop(store);
        let store = open_on(&disk, &clock);
        let second = store.claim(&claim(10)).await?;
        assert_eq!(second.len(), 1);
        assert!(second[0].lease.fence > first.lease.fence);
        assert_eq!(store.settle(&[first.ack()]).await?, [Settled::Done]);
        Ok(())
    })
}

/// Holds: RULE-09.
#[test]
fn a_clock_a_year_ahead_is_rejected_unless_accepted() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(store.accept_one(&message(1)))?;
    drop(store);
    clock.advance(Duration::from_secs(367 * 24 * 60 * 60));
    let mut options = EmbeddedOptions::default();
    options.clock = Some(clock.clone());
    let error = EmbeddedStore::open_on(Arc::new(disk.clone()), &options).unwrap_err();
    assert!(error.to_string().contains("correct the clock"), "{error}");
    options.accept_clock = true;
    let store = EmbeddedStore::open_on(Arc::new(disk), &options)?;
    assert!(matches!(block_on(store.accept_one(&message(1)))?, Accepted::Duplicate { .. }));
    Ok(())
}

/// Closing a store that is being closed waits until it is closed, but not forever.
#[test]
fn concurrent_closes_all_return() {
    for _ in 0..50 {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        block_on(store.accept_one(&message(1))).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| block_on(store.close()).unwrap());
            }
        });
        let again = open_on(&disk.after_power_cut(), &clock);
        assert_eq!(block_on(again.claim(&claim(10))).unwrap().len(), 1);
    }
}

#[test]
fn the_journal_is_reclaimed_and_live_messages_are_kept() -> TestResult {
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        let mut kept = message(0);
        kept.content.topic = Topic::new("other")?;
        store.accept_one(&kept).await?;
        let topics = Topics::only([Topic::new("topic")?])?;
        for round in 0..300_usize {
            let messages: Vec<_> = (0..50).map(|id| message(1 + round * 50 + id)).collect();
            store.accept(&messages).await?;
            let claim = Claim { topics: topics.clone(), ..claim(100) };
            let acks: Vec<_> = store.claim(&claim).await?.iter().map(Delivery::ack).collect();
            assert_eq!(acks.len(), 50);
            store.settle(&acks).await?;
            clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
            store.maintain(Budget::new(1_000)).await?;
        }
        // 300 rounds of 50 messages are about 18 MB of journal in segments of 1 MiB.
        assert!(disk.bytes() < 8 << 20, "{} bytes are left", disk.bytes());
        store.close().await?;
        drop(store);
        let store = open_on(&disk, &clock);
        let found = store.get_one(&kept.key.clone().into()).await?.ok_or("the live message is missing")?;
        assert_eq!(found.content, Some(kept.content));
        Ok(())
    })
}

/// A flipped bit in confirmed data is always detected.
#[test]
fn damage_before_confirmed_writes_is_corrupt() -> TestResult {
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        for id in 0..20 {
            store.accept_one(&message(id)).await?;
        }
        store.close().await?;
        drop(store);
        let (segment, end) = disk.written_segment();
        for place in 1..40 {
            let damaged = disk.after_kill();
            damaged.flip(&segment, 128 + (end - 1_000) * place / 40);
            let error = EmbeddedStore::open_on(Arc::new(damaged), &EmbeddedOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            assert!(error.to_string().contains(&segment), "{error}");
        }
        Ok(())
    })
}

/// A torn tail is truncated. The store reports its size, and that it may have been confirmed; so does the log, in one
/// line.
#[test]
fn a_torn_tail_is_truncated() -> TestResult {
    log::capture();
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        for id in 0..20 {
            store.accept_one(&message(id)).await?;
        }
        let (left, (segment, end)) = (disk.after_kill(), disk.written_segment());
        left.flip(&segment, end - 10);
        let again = open_on(&left, &clock);
        let tail = again.torn_tail().ok_or("the tail was truncated")?;
        assert_eq!((&tail.segment, tail.offset + tail.bytes), (&segment, end as u64 + 1));
        // The frame before it recorded its own predecessor as durable.
        assert_eq!((tail.frames, tail.lsn), (0, tail.durable_lsn + 2), "{tail}");
        assert!(
            tail.to_string().contains("whether the truncated writes had been confirmed is unknown"),
            "{tail}"
        );
        let lines = log::about(&left);
        let [line] = &lines[..] else { panic!("{lines:?}") };
        assert_eq!((line.level, line.text()), (tracing::Level::WARN, &*tail.to_string()));
        let logged =
            (&line.fields["segment"], line.number("offset"), line.number("bytes"), line.number("frames"));
        assert_eq!(logged, (&segment, tail.offset, tail.bytes, 0));
        // A kill alone tears nothing, and logs nothing.
        assert_eq!(log::about(&disk), []);
        let killed = disk.after_kill();
        assert_eq!(open_on(&killed, &clock).torn_tail(), None);
        assert_eq!(log::about(&killed), []);
        assert!(matches!(again.accept_one(&message(18)).await?, Accepted::Duplicate { .. }));
        assert!(matches!(again.accept_one(&message(19)).await?, Accepted::New { .. }));
        Ok(())
    })
}

#[test]
fn a_second_open_fails_and_names_the_process() -> TestResult {
    let directory = std::env::temp_dir().join(format!("oncebox-embedded-{}", std::process::id()));
    let store = EmbeddedStore::open(&directory, &EmbeddedOptions::default())?;
    let error = EmbeddedStore::open(&directory, &EmbeddedOptions::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
    block_on(async {
        store.accept_one(&message(1)).await?;
        store.close().await
    })?;
    drop(store);
    let again = EmbeddedStore::open(&directory, &EmbeddedOptions::default())?;
    assert!(matches!(block_on(again.accept_one(&message(1)))?, Accepted::Duplicate { .. }));
    drop(again);
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}

/// On a full disk, new messages are rejected, work continues in the reserve, and messages are accepted once there is
/// space again.
#[test]
fn a_full_disk_stops_accepting_but_not_work() -> TestResult {
    block_on(async {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let store = open_on(&disk, &clock);
        store.accept_one(&message(0)).await?;
        disk.set_full(true);
        let mut accepted = 1;
        let full = loop {
            match store.accept_one(&message(accepted)).await? {
                Accepted::New { .. } => accepted += 1,
                other => break other,
            }
            assert!(accepted < 1_000, "the disk is full");
        };
        assert!(matches!(full, Accepted::Saturated { .. }), "{full:?}");
        let mut done = 0;
        while done < accepted {
            let acks: Vec<_> = store.claim(&claim(20)).await?.iter().map(Delivery::ack).collect();
            assert!(!acks.is_empty(), "{done} of {accepted} are done");
            assert!(store.settle(&acks).await?.iter().all(|settled| *settled == Settled::Done));
            done += acks.len();
        }
        disk.set_full(false);
        let started = uptime();
        while uptime().saturating_sub(started) < LIMIT {
            if let Accepted::New { .. } = store.accept_one(&message(accepted)).await? {
                return Ok(());
            }
            std::thread::park_timeout(Duration::from_millis(10));
        }
        Err("nothing is accepted although there is space again".into())
    })
}

/// A store that was closed once does not count as closed after its next open, in any durability mode.
/// Holds: RULE-05.
#[test]
fn a_lease_lost_in_a_power_cut_is_waited_for_even_after_an_earlier_close() -> TestResult {
    for durability in [Durability::Sync, Durability::Interval(Duration::from_secs(3_600)), Durability::Os] {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
        let open = |disk: &SimDisk, boot: &str| {
            let mut options = crate::options(&clock);
            options.boot_id = Some(boot.to_owned());
            options.durability = durability;
            EmbeddedStore::open_on(Arc::new(disk.clone()), &options)
        };
        let store = open(&disk, "first")?;
        block_on(store.accept(&[message(1), message(2)]))?;
        // The length of this lease is durable before the store is closed; the next lease of that length need not be.
        let first = block_on(store.claim(&claim(1)))?.remove(0);
        block_on(store.settle(&[first.ack()]))?;
        block_on(store.close())?;
        drop(store);
        let store = open(&disk, "first")?;
        let stalled = disk.stall_syncs();
        assert_eq!(block_on(store.claim(&claim(1)))?.len(), 1);
        let left = disk.after_power_cut();
        drop(stalled);
        let left = open(&left, "second")?;
        assert_eq!(block_on(left.claim(&claim(1)))?, [], "{durability:?}: another process may still hold it");
        clock.advance(first.lease.until.since(first.last_seen_at));
        assert_eq!(block_on(left.claim(&claim(1)))?.len(), 1);
    }
    Ok(())
}

/// Maintenance does not report again after a restart what it reported before.
/// Holds: RULE-05.
#[test]
fn deaths_are_reported_once_across_restarts() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    let mut expiring = message(1);
    expiring.content.expires = Some(oncebox_core::Clock::now(&*clock).after(Duration::from_secs(1)));
    let mut failing = message(2);
    failing.policy.attempts_max = std::num::NonZeroU32::new(1);
    failing.content.topic = Topic::new("other")?;
    block_on(store.accept(&[expiring, failing]))?;
    let other = Claim { topics: Topics::only([Topic::new("other")?])?, ..claim(1) };
    assert_eq!(block_on(store.claim(&other))?.len(), 1);
    clock.advance(Duration::from_secs(3_600));
    let report = block_on(store.maintain(Budget::new(100)))?;
    assert_eq!((report.expired, report.lapsed, report.died.len()), (1, 1, 2));
    for left in [disk.after_kill(), disk.after_power_cut()] {
        let again = open_on(&left, &clock);
        let report = block_on(again.maintain(Budget::new(100)))?;
        assert_eq!((report.expired, report.lapsed, report.died), (0, 0, Vec::new()));
    }
    Ok(())
}

#[test]
fn a_store_opens_on_a_full_disk() -> TestResult {
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    for id in 0..5 {
        let store = open_on(&disk, &clock);
        let started = uptime();
        // Until an obsolete file is wiped there is no space: messages are rejected, nothing is lost.
        while !matches!(block_on(store.accept_one(&message(id)))?, Accepted::New { .. }) {
            assert!(uptime().saturating_sub(started) < LIMIT, "there is never any space for message {id}");
            std::thread::park_timeout(Duration::from_millis(1));
        }
        drop(store);
        disk.set_full(true);
    }
    let store = open_on(&disk, &clock);
    assert_eq!(block_on(store.claim(&claim(10)))?.len(), 5);
    Ok(())
}
