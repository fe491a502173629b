//! A process that begins to serve does not run far ahead of what was out before it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use oncebox_core::{
    Batch, Claim, Delivery, Id, Key, Namespace, NewMessage, Owner, Payload, Shard, Source, Span, Store,
    StoreExt, Topic, Topics,
};
use oncebox_store_postgres::{Options, PostgresStore};
use oncebox_testkit::{ManualClock, TestResult};
use sqlx::PgPool;

use crate::{fresh, pool, pooled};

const LEASE: Duration = Duration::from_secs(3_600);

fn mail(topic: &str, number: u32) -> NewMessage {
    let (source, id) = (Source::new("box").unwrap(), Id::new(format!("{topic} {number}")).unwrap());
    let key = Key::new(Namespace::Mailbox, source, id);
    NewMessage::new(key, Topic::new(topic).unwrap(), Payload::new("hello").unwrap())
}

fn claim(topic: &str, batch: u32) -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(LEASE).unwrap());
    let topics = Topics::only([Topic::new(topic).unwrap()]).unwrap();
    let (bytes_max, in_flight_max) = (Some(1 << 20), Some(8_192));
    Claim {
        topics,
        bytes_max,
        in_flight_max,
        ..Claim::new(Namespace::Mailbox, owner, lease, Batch::new(batch).unwrap())
    }
}

struct Restarted {
    before: Vec<Delivery>,
    after: Arc<PostgresStore>,
    clock: Arc<ManualClock>,
}

/// A handle that begins to serve when two of a hundred messages are out; the other one is gone.
async fn restarted() -> Restarted {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let Begun { before, handles: [after], clock, .. } = restarted_on(pool, options).await;
    Restarted { before, after, clock }
}

/// Handles that begin to serve, and one that never stopped.
struct Begun<const N: usize> {
    before: Vec<Delivery>,
    steady: PostgresStore,
    handles: [Arc<PostgresStore>; N],
    clock: Arc<ManualClock>,
}

/// The same, with as many handles that begin at once.
async fn restarted_on<const N: usize>(pool: PgPool, mut options: Options) -> Begun<N> {
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    let store = PostgresStore::new(pool.clone(), &options);
    let messages: Vec<_> = (0..100).flat_map(|number| [mail("a", number), mail("b", number)]).collect();
    store.accept(&messages).await.unwrap();
    let before = store.claim(&claim("a", 2)).await.unwrap();
    assert_eq!(before.len(), 2);
    let handles = [0; N].map(|_| Arc::new(PostgresStore::new(pool.clone(), &options)));
    Begun { before, steady: store, handles, clock }
}

/// What shard 0 gave out past what was out before, as each handle knows it.
async fn depth(store: &PostgresStore) -> Result<u64, oncebox_core::Error> {
    Ok(store.usage().await?.reorder_depths.get(&Shard(0)).copied().unwrap_or_default())
}

/// Claims side by side give out 32 past the oldest, not 32 each; a shard where nothing is out runs on.
/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_begins_gives_out_32_past_the_oldest_that_is_out() -> TestResult {
    let Restarted { before, after, .. } = restarted().await;
    let claims: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&after);
            tokio::spawn(async move { store.claim(&claim("a", 10)).await })
        })
        .collect();
    let mut given = Vec::new();
    for claim in claims {
        given.extend(claim.await??);
    }
    assert_eq!(given.len(), MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(after.claim(&claim("a", 100)).await?, []);
    assert_eq!(after.claim(&claim("b", 100)).await?.len(), 100, "nothing was out there");
    assert_eq!(depth(&after).await?, MAILBOX_REORDER_MESSAGES_MAX as u64);

    // What was given out is given out again, and nothing else instead.
    let acks: Vec<_> = given[..20].iter().map(Delivery::ack).collect();
    after.settle(&acks).await?;
    let releases: Vec<_> = given[20..].iter().map(Delivery::release).collect();
    after.settle(&releases).await?;
    let again = after.claim(&claim("a", 100)).await?;
    let uids = |deliveries: &[Delivery]| deliveries.iter().map(|one| one.uid).collect::<BTreeSet<_>>();
    assert_eq!(uids(&again), uids(&given[20..]));

    after.settle(&[before[0].ack()]).await?;
    assert_eq!(after.claim(&claim("a", 100)).await?, [], "the next one is out still");
    after.settle(&[before[1].ack()]).await?;
    assert_eq!(after.claim(&claim("a", 100)).await?.len(), 98 - MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(depth(&after).await?, MAILBOX_REORDER_MESSAGES_MAX as u64);
    Ok(())
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_out_before_comes_first_when_its_visibility_ends() -> TestResult {
    let Restarted { before, after, clock } = restarted().await;
    let given = after.claim(&claim("a", 100)).await?;
    assert_eq!(given.len(), MAILBOX_REORDER_MESSAGES_MAX);
    let acks: Vec<_> = given.iter().map(Delivery::ack).collect();
    after.settle(&acks).await?;
    clock.advance(LEASE);
    let rest = after.claim(&claim("a", 100)).await?;
    assert_eq!(rest.len(), 100 - MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!((rest[0].uid, rest[1].uid), (before[0].uid, before[1].uid));
    Ok(())
}

/// Handles that begin at once give out 32 past the oldest together; one that never stopped is not held back by them.
async fn begin_together(pool: PgPool, options: Options) -> TestResult {
    let Begun { before, steady, handles, clock } = restarted_on::<3>(pool.clone(), options.clone()).await;
    let claims: Vec<_> = (0..12)
        .map(|number| {
            let store = Arc::clone(&handles[number % handles.len()]);
            tokio::spawn(async move { store.claim(&claim("a", 10)).await })
        })
        .collect();
    let mut given = Vec::new();
    for claim in claims {
        given.extend(claim.await??);
    }
    // A claim passes over what another one holds for long.
    for store in &handles {
        given.extend(store.claim(&claim("a", 100)).await?);
    }
    let uids = |deliveries: &[Delivery]| deliveries.iter().map(|one| one.uid).collect::<BTreeSet<_>>();
    assert_eq!(
        (given.len(), uids(&given).len()),
        (MAILBOX_REORDER_MESSAGES_MAX, MAILBOX_REORDER_MESSAGES_MAX)
    );
    for store in &handles {
        assert!(depth(store).await? <= MAILBOX_REORDER_MESSAGES_MAX as u64);
    }

    // What one of them finished still counts for the others; what was given back may be given out again, by any.
    let acks: Vec<_> = given[..20].iter().map(Delivery::ack).collect();
    handles[0].settle(&acks).await?;
    let releases: Vec<_> = given[20..].iter().map(Delivery::release).collect();
    handles[1].settle(&releases).await?;
    assert_eq!(uids(&handles[2].claim(&claim("a", 100)).await?), uids(&given[20..]));

    // One that begins later inherits what they gave out, and the same bound; one that never stopped does not slow down for any of them.
    let mut options = options;
    options.clock = Some(clock);
    let late = PostgresStore::new(pool, &options);
    assert_eq!(late.claim(&claim("a", 100)).await?, []);
    assert_eq!(steady.claim(&claim("a", 5)).await?.len(), 5);
    handles[0].settle(&[before[0].ack(), before[1].ack()]).await?;
    // Of the twelve that were given out twice, eleven are past the first.
    let left = MAILBOX_REORDER_MESSAGES_MAX - 11;
    assert_eq!(late.claim(&claim("a", 100)).await?.len(), left);
    assert_eq!(late.claim(&claim("a", 100)).await?, []);
    let rest = 98 - MAILBOX_REORDER_MESSAGES_MAX - 5 - left;
    assert_eq!(handles[1].claim(&claim("a", 100)).await?.len(), rest, "nothing that it inherited is out");
    Ok(())
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_begin_at_once_give_out_32_together() -> TestResult {
    let pool = pool().await;
    let options = fresh(&pool).await;
    begin_together(pool, options).await
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_begin_at_once_behind_a_pooler_give_out_32_together() -> TestResult {
    let (pool, options) = pooled::fresh().await;
    begin_together(pool, options).await
}
