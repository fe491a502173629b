//! Callers that wait for journal space.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Bound, Claim, Delivery, Error, Key, Namespace, NewMessage, Owner, Payload, Span, Store,
    StoreExt, Topic,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::full::{at_once, until};
use crate::{log, open_on};

/// Half of the heartbeat, after which an idle journal writes a frame by itself and thereby wakes all callers.
const STALL: Duration = Duration::from_secs(30);

/// Messages of one call: it needs more space than the two free segments that are kept, and less than three.
const CALL: u32 = 12;

/// Hundreds of segments: in each, the free space falls below the need of a call once, by a different amount.
const FILLED_BYTES: u32 = 28 << 20;

/// Messages of different sizes.
fn message(number: u32, bytes: u32) -> NewMessage {
    let key = Key::inbox("source", format!("{number:06}")).unwrap();
    let payload = Payload::new(vec![b'x'; (bytes + number * 37 % 512) as usize]).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), payload)
}

fn claim() -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(CALL).unwrap())
}

/// Fills a store with messages of about `bytes`. For each of them, `call` also makes a call that reserves much space
/// and writes nothing: duplicates of messages that are done.
fn fill(
    bytes: u32,
    call: &impl AsyncFn(&EmbeddedStore, &NewMessage, &[NewMessage]) -> Result<(), Error>,
) -> TestResult {
    let store = open_on(&SimDisk::default(), &Arc::new(ManualClock::default()));
    block_on(async {
        let done: Vec<_> = (0..CALL).map(|number| message(number, 4_600)).collect();
        store.accept(&done).await?;
        let acks: Vec<_> = store.claim(&claim()).await?.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        for number in CALL..CALL + FILLED_BYTES / bytes {
            let message = message(number, bytes);
            let start = uptime();
            call(&store, &message, &done).await?;
            let took = uptime().saturating_sub(start);
            assert!(took < STALL, "call {number} waited {took:?} for space");
        }
        Ok(())
    })
}

/// A call that needs slightly more than the free space continues as soon as a segment is allocated: it does not wait
/// until something else is written.
#[test]
fn a_call_that_nearly_fits_does_not_wait_for_the_next_frame() -> TestResult {
    fill(4_600, &async |store, message, done| {
        store.accept_one(message).await?;
        store.accept(done).await.map(drop)
    })
}

/// The same if the free space is known only after the preceding group is written.
#[test]
fn a_call_that_fits_once_the_group_is_written_does_not_wait_for_the_next_frame() -> TestResult {
    fill(61_000, &async |store, message, done| {
        let (first, second) = tokio::join!(store.accept_one(message), store.accept(done));
        first?;
        second.map(drop)
    })
}

/// Runs `call` with messages that need more segments than fit on the disk. The store must try no longer than a caller
/// waits: then it reports that the journal can grow, and takes no space that is freed.
fn wanted_in_vain(call: impl FnOnce(&SimDisk, &EmbeddedStore, &[NewMessage]) -> TestResult) -> TestResult {
    log::capture();
    let disk = SimDisk::default();
    let store = open_on(&disk, &Arc::new(ManualClock::default()));
    disk.set_bytes_max(Some(disk.bytes() + 4 * (64 << 10)));
    let messages: Vec<_> = (0..100).map(|number| message(number, 10_000)).collect();
    call(&disk, &store, &messages)?;
    let has_space_again =
        || log::about(&disk).last().is_some_and(|line| line.text().contains("has space again"));
    until("the journal can grow again", has_space_again);
    assert!(disk.rejected_writes() > 0);
    assert!(block_on(store.usage())?.bounds.iter().all(|bound| bound.name != Bound::DISK_BYTES));
    let bytes = disk.bytes();
    disk.set_bytes_max(None);
    assert!(matches!(block_on(store.accept_one(&messages[0]))?, Accepted::New { .. }));
    block_on(store.close())?;
    assert_eq!(disk.bytes(), bytes);
    Ok(())
}

/// A call that was rejected because the disk is full wants no space any more.
#[test]
fn a_rejected_call_wants_no_space() -> TestResult {
    wanted_in_vain(|_, store, messages| {
        let outcomes = block_on(store.accept(messages))?;
        let is_full = |outcome: &Accepted| matches!(outcome, Accepted::Saturated { bound, .. } if bound.name == Bound::DISK_BYTES);
        assert!(outcomes.iter().all(is_full), "{outcomes:?}");
        Ok(())
    })
}

/// Nor does a call whose caller is gone.
#[test]
fn a_cancelled_call_wants_no_space() -> TestResult {
    wanted_in_vain(|disk, store, messages| {
        let _creations = disk.stall_creations();
        assert!(at_once(store.accept(messages)).is_none(), "the call does not wait");
        Ok(())
    })
}
