//! Bounds that several processes share: by how much they can be passed, and what is shown of them.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Bound, Claim, Key, Namespace, NewMessage, Owner, Payload, Span, Store, StoreExt, Topic,
};
use oncebox_store_postgres::{Options, PostgresStore};
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

/// Sends one by one until the lane is full; answers how many were taken in.
async fn fill(store: &PostgresStore, name: &str, max: u32) -> u32 {
    for number in 0..max * 4 {
        match store.accept_one(&message(&format!("{name} {number}"), max)).await.unwrap() {
            Accepted::New { .. } => {}
            Accepted::Saturated { .. } => return number,
            other => panic!("{other:?}"),
        }
    }
    panic!("{} were taken in, and the bound is {max}", max * 4)
}

/// Calls one after another do not pass a small bound, whichever process makes them.
/// Holds: MBX-I-5, MBX-C-5, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_take_turns_do_not_pass_a_small_bound() {
    let [one, other] = two().await;
    // Both have seen the lane when it was nearly empty.
    for (store, id) in [(&one, "first"), (&other, "second")] {
        assert!(matches!(store.accept_one(&message(id, 5)).await.unwrap(), Accepted::New { .. }));
    }
    assert_eq!(fill(&one, "one", 5).await, 3);
    assert_eq!(fill(&other, "other", 5).await, 0, "the lane is full");
}

/// Each process passes a bound by a 128th of it at most, and by what it has under way.
/// Holds: MBX-I-5, MBX-C-5, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_pass_a_bound_by_a_named_part_of_it() {
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
    let mut taken = 0;
    for sender in senders {
        taken += sender.await.unwrap();
    }
    let passed_max = 2 * (MAX / 128 + SENDERS);
    assert!(
        (MAX..=MAX + passed_max).contains(&taken),
        "{taken} were taken in, {MAX} and {passed_max} may be"
    );
}

/// What a process remembers of the depths of lanes may be stale, full or empty: whether a lane is full, the tables say.
/// Holds: RULE-25, MBX-C-5.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn depths_that_are_stale_or_not_remembered_are_counted() -> TestResult {
    const MAX: u32 = 256;
    /// More than a process remembers.
    const LANES: u32 = 4_200;
    let [one, other] = two().await;
    let is_full = async |store: &PostgresStore, id: &str| match store.accept_one(&message(id, MAX)).await {
        Ok(Accepted::New { .. }) => false,
        Ok(Accepted::Saturated { .. }) => true,
        unexpected => panic!("{unexpected:?}"),
    };
    assert_eq!(fill(&one, "first", MAX).await, MAX);
    // Stale: another process makes place.
    let (owner, lease) = (Owner::new(7)?, Span::lease(DEADLINE)?);
    let taken = other.claim(&Claim::new(Namespace::Inbox, owner, lease, Batch::new(1)?)).await?;
    other.settle(&[taken[0].ack()]).await?;
    assert!(!is_full(&one, "one more").await);
    assert!(is_full(&one, "too many").await);
    // Full: the depths of so many other lanes are remembered that this one's may not be.
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let mut elsewhere = message(&format!("lane {lane}"), MAX);
            elsewhere.content.topic = Topic::new(format!("lane {lane}")).unwrap();
            elsewhere
        })
        .collect();
    for some in lanes.chunks(1_000) {
        for accepted in one.accept(some).await? {
            assert!(matches!(accepted, Accepted::New { .. }), "{accepted:?}");
        }
    }
    assert!(is_full(&one, "too many").await);
    // Empty: the other process has counted none.
    assert!(is_full(&other, "too many").await);
    Ok(())
}

/// The table of keys is bounded: full, it refuses what is new and answers what it knows; how full it is, is shown.
/// Holds: MBX-C-2, RULE-03, RULE-27.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_table_of_keys_is_bounded_and_shown() -> TestResult {
    let database = Postgres::shared()?.lend_database()?;
    let url = format!("{}?ensure=yes&keys_max=20", database.url());
    let store = PostgresStore::open(&url, Options::default()).await?;
    let first = NewMessage { lane_max: None, ..message("first", 1) };
    store.accept_one(&first).await?;
    let end = tokio::time::Instant::now() + DEADLINE;
    let mut taken = 1_u64;
    loop {
        let next = NewMessage { lane_max: None, ..message(&taken.to_string(), 1) };
        match store.accept_one(&next).await? {
            Accepted::New { .. } => taken += 1,
            Accepted::Saturated { bound, .. } => {
                assert_eq!((bound.name, bound.limit), (Bound::KEYS, 20));
                break;
            }
            other => panic!("{other:?}"),
        }
        // The server's statistics are told after a while.
        assert!(tokio::time::Instant::now() < end, "{taken} keys were taken in, and 20 may be");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(taken >= 20, "only {taken} were taken in");
    assert!(
        matches!(store.accept_one(&first).await?, Accepted::Duplicate { .. }),
        "what is known is answered"
    );
    let usage = store.usage().await?;
    let keys = usage.bounds.iter().find(|bound| bound.name == Bound::KEYS).ok_or("it is not shown")?;
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
