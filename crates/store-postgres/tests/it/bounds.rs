//! Limits that several processes share: by how much they can be exceeded, and how they are reported.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Bound, Claim, Key, Namespace, NewMessage, Owner, Payload, Span, Store, StoreExt, Topic,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
use oncebox_testkit::servers::Postgres;
use oncebox_testkit::{Fixture, ManualClock, TestResult, block_on, bounds};

use crate::{fresh, pool};

const DEADLINE: Duration = Duration::from_secs(60);

fn message(id: &str, max: u32) -> NewMessage {
    let key = Key::inbox("shop", id).unwrap();
    let message = NewMessage::new(key, Topic::new("t").unwrap(), Payload::new("{}").unwrap());
    NewMessage { lane_max: NonZeroU32::new(max), ..message }
}

async fn two() -> [Arc<PostgresStore>; 2] {
    let pool = pool().await;
    let options = fresh(&pool).await;
    [0; 2].map(|_| Arc::new(PostgresStore::new(pool.clone(), &options)))
}

/// Sends one message at a time until the lane is full; returns how many were accepted.
async fn fill(store: &PostgresStore, name: &str, max: u32) -> u32 {
    for number in 0..max * 4 {
        match store.accept_one(&message(&format!("{name} {number}"), max)).await.unwrap() {
            Accepted::New { .. } => {}
            Accepted::Saturated { .. } => return number,
            other => panic!("{other:?}"),
        }
    }
    panic!("{} were accepted, and the limit is {max}", max * 4)
}

/// Sequential calls do not exceed a small limit, whichever process makes them.
/// Holds: MBX-I-5, MBX-C-5, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sequential_calls_do_not_exceed_a_small_limit() {
    let [one, other] = two().await;
    // Both have seen the lane while it was nearly empty.
    for (store, id) in [(&one, "first"), (&other, "second")] {
        assert!(matches!(store.accept_one(&message(id, 5)).await.unwrap(), Accepted::New { .. }));
    }
    assert_eq!(fill(&one, "one", 5).await, 3);
    assert_eq!(fill(&other, "other", 5).await, 0, "the lane is full");
}

/// Each process exceeds a limit by at most a 128th of it plus its concurrent calls.
/// Holds: MBX-I-5, MBX-C-5, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_exceed_a_limit_by_at_most_a_128th() {
    const MAX: u32 = 256;
    const SENDERS: u32 = 3;
    let stores = two().await;
    let mut senders = Vec::new();
    for (process, store) in stores.iter().enumerate() {
        for sender in 0..SENDERS {
            let store = Arc::clone(store);
            senders
                .push(tokio::spawn(async move { fill(&store, &format!("{process}/{sender}"), MAX).await }));
        }
    }
    let mut accepted = 0;
    for sender in senders {
        accepted += sender.await.unwrap();
    }
    let excess_max = 2 * (MAX / 128 + SENDERS);
    assert!(
        (MAX..=MAX + excess_max).contains(&accepted),
        "{accepted} were accepted, at most {MAX} plus {excess_max} are allowed"
    );
}

/// A process's cache of lane depths may be stale, full or empty: the tables decide whether a lane is full.
/// Holds: RULE-25, MBX-C-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_or_evicted_depths_are_counted_again() -> TestResult {
    const MAX: u32 = 256;
    /// More lanes than a process remembers.
    const LANES: u32 = 4_200;
    let [one, other] = two().await;
    let is_full = async |store: &PostgresStore, id: &str| match store.accept_one(&message(id, MAX)).await {
        Ok(Accepted::New { .. }) => false,
        Ok(Accepted::Saturated { .. }) => true,
        unexpected => panic!("{unexpected:?}"),
    };
    assert_eq!(fill(&one, "first", MAX).await, MAX);
    // Stale: another process removes a message.
    let (owner, lease) = (Owner::new(7)?, Span::lease(DEADLINE)?);
    let claimed = other.claim(&Claim::new(Namespace::Inbox, owner, lease, Batch::new(1)?)).await?;
    other.settle(&[claimed[0].ack()]).await?;
    assert!(!is_full(&one, "one more").await);
    assert!(is_full(&one, "too many").await);
    // Full: the depths of other lanes may have evicted this one's.
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let mut elsewhere = message(&format!("lane {lane}"), MAX);
            elsewhere.content.topic = Topic::new(format!("lane {lane}")).unwrap();
            elsewhere
        })
        .collect();
    for batch in lanes.chunks(1_000) {
        for accepted in one.accept(batch).await? {
            assert!(matches!(accepted, Accepted::New { .. }), "{accepted:?}");
        }
    }
    assert!(is_full(&one, "too many").await);
    // Empty: the other process has counted no lane.
    assert!(is_full(&other, "too many").await);
    Ok(())
}

/// The number of keys is limited: at the limit, the store rejects new keys and still answers known ones, and reports
/// the usage.
/// Holds: MBX-C-2, RULE-03, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_number_of_keys_is_limited_and_reported() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = format!("{}?ensure=yes&keys_max=20", database.url());
    let store = PostgresStore::open(&url, PostgresOptions::default()).await?;
    let first = NewMessage { lane_max: None, ..message("first", 1) };
    store.accept_one(&first).await?;
    let end = tokio::time::Instant::now() + DEADLINE;
    let mut accepted = 1_u64;
    loop {
        let next = NewMessage { lane_max: None, ..message(&accepted.to_string(), 1) };
        match store.accept_one(&next).await? {
            Accepted::New { .. } => accepted += 1,
            Accepted::Saturated { bound, .. } => {
                assert_eq!((bound.name, bound.limit), (Bound::KEYS, 20));
                break;
            }
            other => panic!("{other:?}"),
        }
        // The server updates its statistics with a delay.
        assert!(tokio::time::Instant::now() < end, "{accepted} keys were accepted, and 20 are allowed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(accepted >= 20, "only {accepted} were accepted");
    assert!(matches!(store.accept_one(&first).await?, Accepted::Duplicate { .. }), "known keys are answered");
    let usage = store.usage().await?;
    let keys =
        usage.bounds.iter().find(|bound| bound.name == Bound::KEYS).ok_or("the limit is not reported")?;
    assert!(keys.limit == 20 && keys.used >= 20, "{keys:?}");
    store.close().await?;
    Ok(())
}

/// Holds: MBX-I-13, RULE-03.
#[test]
fn a_full_store_forgets_no_key() -> TestResult {
    block_on(async {
        let pool = pool().await;
        let mut options = fresh(&pool).await;
        let clock = Arc::new(ManualClock::default());
        options.keys_max = 5;
        options.clock = Some(clock.clone());
        let store = Arc::new(PostgresStore::new(pool, &options));
        bounds::a_full_store_forgets_no_key(Fixture { store, time: clock }).await
    })
}
