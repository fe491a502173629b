//! Reclaim under pressure and at rest.

use std::io;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Budget, Claim, Delivery, Hold, Key, Namespace, NewMessage, Owner, Payload, Span, Store,
    StoreExt, Topic, Topics,
};
use oncebox_store_embedded::disk::{Disk, DiskFile};
use oncebox_store_embedded::{EmbeddedStore, Options};
use oncebox_testkit::{ManualClock, TestResult, block_on};

use crate::disk::SimDisk;
use crate::open_on;

fn message(topic: &str, id: usize, bytes: usize) -> NewMessage {
    let key = Key::inbox(topic, id.to_string()).unwrap();
    let payload = Payload::new(vec![b'x'; bytes]).unwrap();
    let mut message = NewMessage::new(key, Topic::new(topic).unwrap(), payload);
    message.policy.hold = Hold { window: Duration::ZERO, keep: Some(Duration::ZERO) };
    message
}

fn claim(topic: &str) -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    let claim = Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::new(100).unwrap());
    Claim { topics: Topics::only([Topic::new(topic).unwrap()]).unwrap(), ..claim }
}

/// A disk that takes its time to make files.
struct SlowDisk(SimDisk);

impl Disk for SlowDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        sleep(Duration::from_millis(2));
        self.0.create(name)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.0.sync_names()
    }
}

/// What reclaiming writes takes room, too: callers must not be given it a second time.
#[test]
fn callers_and_reclaim_share_the_room_of_a_slow_disk() {
    let mut options = Options::default();
    options.segment_bytes = 64 << 10;
    options.clock = Some(Arc::new(ManualClock::default()));
    let store = EmbeddedStore::open_on(Arc::new(SlowDisk(SimDisk::default())), &options).unwrap();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let topic = format!("topic-{caller}");
                // Every other one stays, so that there is much to write again.
                for id in 0..60 {
                    let kept = format!("kept-{caller}");
                    let messages = [message(&topic, id, 30_000), message(&kept, id, 3_000)];
                    let accepted = block_on(store.accept(&messages)).unwrap();
                    assert!(accepted.iter().all(|outcome| matches!(outcome, Accepted::New { .. })));
                    let deliveries = block_on(store.claim(&claim(&topic))).unwrap();
                    let acks: Vec<_> = deliveries.iter().map(Delivery::ack).collect();
                    block_on(store.settle(&acks)).unwrap();
                }
            });
        }
    });
    block_on(store.close()).unwrap();
}

/// When everything is finished and forgotten, the directory shrinks although nobody calls any more.
#[test]
fn the_journal_is_reclaimed_at_rest() -> TestResult {
    const SMALL: usize = 5 * (64 << 10);
    let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::default()));
    let store = open_on(&disk, &clock);
    block_on(async {
        for id in 0..100 {
            store.accept_one(&message("topic", id, 10_000)).await?;
        }
        assert!(disk.bytes() > 2 * SMALL, "{} bytes", disk.bytes());
        let acks: Vec<_> = store.claim(&claim("topic")).await?.iter().map(Delivery::ack).collect();
        store.settle(&acks).await?;
        clock.advance(Duration::from_secs(11 * 60));
        assert_eq!(store.upkeep(Budget::new(1_000)).await?.forgotten, 100);
        TestResult::Ok(())
    })?;
    for _ in 0..3_000 {
        if disk.bytes() <= SMALL {
            return Ok(());
        }
        sleep(Duration::from_millis(10));
    }
    Err(format!("{} bytes are left", disk.bytes()).into())
}
