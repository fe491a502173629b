//! Callers that wait for space in the journal.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Delivery, Error, Key, Namespace, NewMessage, Owner, Payload, Span, Store, StoreExt, Topic,
};
use oncebox_store_embedded::EmbeddedStore;
use oncebox_system::uptime;
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::open_on;

/// Half of the time after which an idle journal writes a frame by itself, and by that lets everybody go on.
const STALL: Duration = Duration::from_secs(30);

/// Messages of one call: it needs more space than the two segments that are kept prepared, and less than three.
const CALL: u32 = 12;

/// Hundreds of segments: what is left meets what a call needs once in each, at another distance.
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

/// Fills a store with messages of about so many bytes, and each time makes a call that needs much space and writes nothing, as
/// `meet` makes them meet: messages that are done need space when they come again.
fn fill(
    bytes: u32,
    meet: &impl AsyncFn(&EmbeddedStore, &NewMessage, &[NewMessage]) -> Result<(), Error>,
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
            meet(&store, &message, &done).await?;
            let took = uptime().saturating_sub(start);
            assert!(took < STALL, "call {number} waited {took:?} for space");
        }
        Ok(())
    })
}

/// However little a call needs more than what is left, it goes on as soon as a segment is prepared: it does not wait until
/// something else is written.
#[test]
fn a_call_that_nearly_fits_does_not_wait_for_the_next_frame() -> TestResult {
    fill(4_600, &async |store, message, done| {
        store.accept_one(message).await?;
        store.accept(done).await.map(drop)
    })
}

/// The same where the space that is left shows only when the group before it is written.
#[test]
fn a_call_that_fits_once_the_group_is_written_does_not_wait_for_the_next_frame() -> TestResult {
    fill(61_000, &async |store, message, done| {
        let (first, second) = tokio::join!(store.accept_one(message), store.accept(done));
        first?;
        second.map(drop)
    })
}
