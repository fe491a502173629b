//! Bounds of the memory store: a full store refuses, and forgets nothing; and amnesia leaves no payload in memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use bytes::Bytes;
use oncebox_core::machine::Capacity;
use oncebox_core::{
    Accepted, Action, Batch, Begin, Begun, Bound, Budget, CallerHash, Claim, Hold, Keep, Key, Namespace,
    NewMessage, Observation, Observed, Operated, Order, Owner, Payload, Policy, Span, Store, StoreExt, Topic,
};
use oncebox_store_memory::{MemoryOptions, Payloads};
use oncebox_testkit::{Fixture, TestResult, block_on, bounds};
use zeroize::Zeroizing;

use crate::open_with;

fn bounded(change: impl FnOnce(&mut Capacity)) -> Fixture {
    let mut options = MemoryOptions::default();
    change(&mut options.capacity);
    open_with(options)
}

fn message(id: &str, payload: impl Into<Bytes>) -> NewMessage {
    let key = Key::inbox("bounds", id).unwrap();
    NewMessage::new(key, Topic::new("topic").unwrap(), Payload::new(payload).unwrap())
}

fn claim() -> Claim {
    let lease = Span::lease(Duration::from_secs(30)).unwrap();
    Claim::new(Namespace::Inbox, Owner::new(1).unwrap(), lease, Batch::ONE)
}

/// Holds: MBX-I-5, RULE-19.
#[test]
fn a_full_store_is_saturated_and_accepts_again_when_work_is_done() -> TestResult {
    block_on(async {
        let Fixture { store, .. } = bounded(|capacity| capacity.messages_max = 2);
        store.accept(&[message("1", "a"), message("2", "b")]).await?;
        let full = store.accept_one(&message("3", "c")).await?;
        let Accepted::Saturated { retry_after, bound } = full else { panic!("{full:?}") };
        assert!(retry_after >= Duration::from_secs(1) && retry_after <= Duration::from_secs(60));
        assert_eq!(bound, Bound::new(Bound::MESSAGES, 2, 2));
        // A duplicate is still recognized.
        assert!(matches!(
            store.accept_one(&message("1", "a")).await?,
            Accepted::Duplicate { diverged: false, .. }
        ));
        let delivery = store.claim(&claim()).await?.remove(0);
        store.settle(&[delivery.ack()]).await?;
        assert!(matches!(store.accept_one(&message("3", "c")).await?, Accepted::New { .. }));
        Ok(())
    })
}

/// Holds: MBX-I-5, MBX-I-13, RULE-03.
#[test]
fn a_held_key_is_never_forgotten_to_make_space() -> TestResult {
    block_on(async {
        let Fixture { store, time } = bounded(|capacity| capacity.keys_max = 1);
        let mut first = message("1", "a");
        first.policy.hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_secs(3_600)) };
        store.accept_one(&first).await?;
        let delivery = store.claim(&claim()).await?.remove(0);
        store.settle(&[delivery.ack()]).await?;

        let key = message("2", "").key;
        let (owner, lease) = (Owner::new(1)?, Span::lease(Duration::from_secs(30))?);
        let hold = Policy::LEDGER.hold;
        let observation = Observation { key: key.clone(), hash: None, hold };
        let begin = Begin { key: key.clone(), owner, lease, hold };
        let mark = Order { target: key.into(), action: Action::MarkProcessed { hold } };
        time.advance(Duration::from_millis(3_599_999)).await;
        store.maintain(Budget::new(1_000)).await?;
        let full = store.accept_one(&message("2", "b")).await?;
        assert!(matches!(full, Accepted::Saturated { bound, .. } if bound.name == Bound::KEYS), "{full:?}");
        assert!(matches!(
            store.observe(std::slice::from_ref(&observation)).await?[0],
            Observed::Saturated { .. }
        ));
        assert!(matches!(store.begin(&[begin]).await?[0], Begun::Saturated { .. }));
        assert!(matches!(store.operate_one(&mark).await?, Operated::Saturated { .. }));
        assert!(matches!(store.accept_one(&first).await?, Accepted::Duplicate { .. }));

        time.advance(Duration::from_millis(1)).await;
        store.maintain(Budget::new(1_000)).await?;
        assert!(matches!(store.observe(&[observation]).await?[0], Observed::First(_)));
        Ok(())
    })
}

/// Holds: RULE-19, MBX-I-5.
#[test]
fn bytes_are_bounded_also_when_content_is_replaced() -> TestResult {
    block_on(bounds::a_store_full_of_bytes_is_saturated(bounded(|capacity| capacity.live_bytes_max = 10_000)))
}

/// Holds: MBX-I-13, RULE-03.
#[test]
fn a_full_store_forgets_no_key() -> TestResult {
    block_on(bounds::a_full_store_forgets_no_key(bounded(|capacity| capacity.keys_max = 5)))
}

/// Accepts messages until the store is full; returns the fullest bound before and after the last one.
async fn fill(store: &dyn Store) -> [Option<Bound>; 2] {
    let mut fullest = [None; 2];
    for id in 0..100 {
        let accepted = store.accept_one(&message(&id.to_string(), vec![b'x'; 1_000])).await.unwrap();
        if let Accepted::Saturated { .. } = accepted {
            return fullest;
        }
        fullest = [fullest[1], store.usage().await.unwrap().fullest().copied()];
    }
    panic!("the store accepted 100 messages: {fullest:?}");
}

/// Holds: RULE-19, RULE-20.
#[test]
fn the_fullest_bound_is_the_one_that_saturates() -> TestResult {
    block_on(async {
        let usage = bounded(|_| ()).store.usage().await?;
        let Capacity { messages_max, keys_max, live_bytes_max } = Capacity::default();
        let bounds = [("messages", messages_max), ("keys", keys_max), ("live_bytes", live_bytes_max)];
        assert_eq!(usage.bounds, bounds.map(|(name, limit)| Bound::new(name, 0, limit)));

        let Fixture { store, .. } = bounded(|capacity| capacity.messages_max = 5);
        let [before, full] = fill(&*store).await.map(|bound| bound.map(|bound| (bound.name, bound.used)));
        assert_eq!((before, full), (Some(("messages", 4)), Some(("messages", 5))));

        let Fixture { store, .. } = bounded(|capacity| capacity.keys_max = 5);
        let [before, full] = fill(&*store).await.map(|bound| bound.map(|bound| (bound.name, bound.used)));
        assert_eq!((before, full), (Some(("keys", 4)), Some(("keys", 5))));
        // The space of a key is freed only when the key is forgotten, not when its message is done.
        let delivery = store.claim(&claim()).await?.remove(0);
        store.settle(&[delivery.ack()]).await?;
        let fullest = store.usage().await?.fullest().copied().ok_or("there are bounds")?;
        assert_eq!((fullest.name, fullest.used), ("keys", 5));

        let Fixture { store, .. } = bounded(|capacity| capacity.live_bytes_max = 10_000);
        let [_, full] = fill(&*store).await;
        let full = full.ok_or("there are bounds")?;
        assert_eq!((full.name, full.limit), ("live_bytes", 10_000));
        assert!(full.share() > 0.8 && full.share() <= 1.0, "{full:?}");
        Ok(())
    })
}

/// A byte of the secret; as a whole, the secret exists only in the payload.
fn secret(index: usize) -> u8 {
    u8::try_from((index * 131 + 77) % 251).unwrap()
}

const SECRET_BYTES: usize = 4_096;

/// Whether the second half of the secret is anywhere in this process's writable memory.
fn secret_in_memory() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut memory = File::open("/proc/self/mem").unwrap();
    let writable =
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|mode| mode.starts_with("rw")));
    writable.filter_map(|line| line.split(' ').next()?.split_once('-')).any(|(start, end)| {
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut region = Zeroizing::new(vec![0; usize::try_from(end - start).unwrap()]);
        let read = memory.seek(SeekFrom::Start(start)).and_then(|_| memory.read_exact(&mut region));
        let half = SECRET_BYTES / 2;
        read.is_ok()
            && region.windows(half).any(|window| {
                window[0] == secret(half)
                    && window.iter().enumerate().all(|(index, byte)| *byte == secret(half + index))
            })
    })
}

struct Wiped(Zeroizing<Vec<u8>>);

impl AsRef<[u8]> for Wiped {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Holds: MBX-I-9, MBX-G-6.
#[test]
fn amnesia_wipes_a_payload_once_it_is_done() -> TestResult {
    block_on(async {
        let mut options = MemoryOptions::default();
        options.payloads = Payloads::Wiped;
        let Fixture { store, .. } = open_with(options);
        let senders = Zeroizing::new((0..SECRET_BYTES).map(secret).collect::<Vec<_>>());
        store.accept_one(&message("1", Bytes::from_owner(Wiped(senders)))).await?;
        assert!(secret_in_memory(), "the payload of a waiting message is in memory");
        let delivery = store.claim(&claim()).await?.remove(0);
        store.settle(&[delivery.ack()]).await?;
        drop(delivery);
        assert!(!secret_in_memory(), "the payload of a Done message is wiped");
        Ok(())
    })
}

/// A caller's hash in a later observation is charged like one in the first.
/// Holds: RULE-19.
#[test]
fn a_late_hash_is_charged() -> TestResult {
    block_on(async {
        let used = async |hashes: &[bool]| {
            let Fixture { store, .. } = bounded(|_| ());
            for hashed in hashes {
                let hash = hashed.then(|| CallerHash::new("sha256", &[7; 32])).transpose()?;
                let observation = Observation { key: message("1", "").key, hash, hold: Policy::INBOX.hold };
                store.observe(&[observation]).await?;
            }
            let usage = store.usage().await?;
            let bound = usage.bounds.into_iter().find(|bound| bound.name == Bound::LIVE_BYTES);
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(bound.ok_or("bytes are bounded")?.used)
        };
        let (bare, first, late) = (used(&[false]).await?, used(&[true]).await?, used(&[false, true]).await?);
        assert_eq!(late, first);
        assert!(first >= bare + 32, "{first} and {bare}");
        Ok(())
    })
}
