//! A process that starts to serve does not deliver far ahead of the deliveries that were outstanding before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use oncebox_core::{
    Batch, Claim, Delivery, Id, Key, Namespace, NewMessage, Owner, Payload, Shard, Source, Span, Store,
    StoreExt, Topic, Topics,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
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

/// A handle that starts to serve while two of a hundred messages are outstanding; the other handle is gone.
async fn restarted() -> Restarted {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let Started { before, handles: [after], clock, .. } = restarted_on(pool, options).await;
    Restarted { before, after, clock }
}

/// Handles that start to serve, and one that never stopped.
struct Started<const N: usize> {
    before: Vec<Delivery>,
    running: PostgresStore,
    handles: [Arc<PostgresStore>; N],
    clock: Arc<ManualClock>,
}

/// Like [`restarted`], with several handles that start at the same time.
async fn restarted_on<const N: usize>(pool: PgPool, mut options: PostgresOptions) -> Started<N> {
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    let store = PostgresStore::new(pool.clone(), &options);
    let messages: Vec<_> = (0..100).flat_map(|number| [mail("a", number), mail("b", number)]).collect();
    store.accept(&messages).await.unwrap();
    let before = store.claim(&claim("a", 2)).await.unwrap();
    assert_eq!(before.len(), 2);
    let handles = [0; N].map(|_| Arc::new(PostgresStore::new(pool.clone(), &options)));
    Started { before, running: store, handles, clock }
}

/// How many messages shard 0 delivered past inherited deliveries, according to a handle.
async fn depth(store: &PostgresStore) -> Result<u64, oncebox_core::Error> {
    Ok(store.usage().await?.reorder_depths.get(&Shard(0)).copied().unwrap_or_default())
}

/// Concurrent claims deliver 32 messages past the oldest outstanding delivery, not 32 each; a shard without
/// outstanding deliveries is not limited.
/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_process_delivers_32_past_the_oldest_outstanding_delivery() -> TestResult {
    let Restarted { before, after, .. } = restarted().await;
    let claims: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&after);
            tokio::spawn(async move { store.claim(&claim("a", 10)).await })
        })
        .collect();
    let mut delivered = Vec::new();
    for claim in claims {
        delivered.extend(claim.await??);
    }
    assert_eq!(delivered.len(), MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(after.claim(&claim("a", 100)).await?, []);
    assert_eq!(after.claim(&claim("b", 100)).await?.len(), 100, "that lane is not limited");
    assert_eq!(depth(&after).await?, MAILBOX_REORDER_MESSAGES_MAX as u64);

    // Messages that were delivered are redelivered, and no others instead.
    let acks: Vec<_> = delivered[..20].iter().map(Delivery::ack).collect();
    after.settle(&acks).await?;
    let releases: Vec<_> = delivered[20..].iter().map(Delivery::release).collect();
    after.settle(&releases).await?;
    let again = after.claim(&claim("a", 100)).await?;
    let uids = |deliveries: &[Delivery]| deliveries.iter().map(|one| one.uid).collect::<BTreeSet<_>>();
    assert_eq!(uids(&again), uids(&delivered[20..]));

    after.settle(&[before[0].ack()]).await?;
    assert_eq!(after.claim(&claim("a", 100)).await?, [], "the next one is still outstanding");
    after.settle(&[before[1].ack()]).await?;
    assert_eq!(after.claim(&claim("a", 100)).await?.len(), 98 - MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!(depth(&after).await?, MAILBOX_REORDER_MESSAGES_MAX as u64);
    Ok(())
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inherited_deliveries_come_first_when_their_visibility_timeout_ends() -> TestResult {
    let Restarted { before, after, clock } = restarted().await;
    let delivered = after.claim(&claim("a", 100)).await?;
    assert_eq!(delivered.len(), MAILBOX_REORDER_MESSAGES_MAX);
    let acks: Vec<_> = delivered.iter().map(Delivery::ack).collect();
    after.settle(&acks).await?;
    clock.advance(LEASE);
    let rest = after.claim(&claim("a", 100)).await?;
    assert_eq!(rest.len(), 100 - MAILBOX_REORDER_MESSAGES_MAX);
    assert_eq!((rest[0].uid, rest[1].uid), (before[0].uid, before[1].uid));
    Ok(())
}

/// Handles that start at the same time deliver 32 past the oldest in total; one that never stopped is not limited by
/// them.
async fn start_together(pool: PgPool, options: PostgresOptions) -> TestResult {
    let Started { before, running, handles, clock } = restarted_on::<3>(pool.clone(), options.clone()).await;
    let claims: Vec<_> = (0..12)
        .map(|number| {
            let store = Arc::clone(&handles[number % handles.len()]);
            tokio::spawn(async move { store.claim(&claim("a", 10)).await })
        })
        .collect();
    let mut delivered = Vec::new();
    for claim in claims {
        delivered.extend(claim.await??);
    }
    // A claim skips a lane whose row another claim has locked for long.
    for store in &handles {
        delivered.extend(store.claim(&claim("a", 100)).await?);
    }
    let uids = |deliveries: &[Delivery]| deliveries.iter().map(|one| one.uid).collect::<BTreeSet<_>>();
    assert_eq!(
        (delivered.len(), uids(&delivered).len()),
        (MAILBOX_REORDER_MESSAGES_MAX, MAILBOX_REORDER_MESSAGES_MAX)
    );
    for store in &handles {
        assert!(depth(store).await? <= MAILBOX_REORDER_MESSAGES_MAX as u64);
    }

    // Messages that one handle has finished still count for the others; released ones may be redelivered by any
    // handle.
    let acks: Vec<_> = delivered[..20].iter().map(Delivery::ack).collect();
    handles[0].settle(&acks).await?;
    let releases: Vec<_> = delivered[20..].iter().map(Delivery::release).collect();
    handles[1].settle(&releases).await?;
    assert_eq!(uids(&handles[2].claim(&claim("a", 100)).await?), uids(&delivered[20..]));

    // A handle that starts later inherits their deliveries, and has the same limit; one that never stopped is not
    // slowed down.
    let mut options = options;
    options.clock = Some(clock);
    let late = PostgresStore::new(pool, &options);
    assert_eq!(late.claim(&claim("a", 100)).await?, []);
    assert_eq!(running.claim(&claim("a", 5)).await?.len(), 5);
    handles[0].settle(&[before[0].ack(), before[1].ack()]).await?;
    // Of the twelve messages that were delivered twice, eleven are past the first.
    let left = MAILBOX_REORDER_MESSAGES_MAX - 11;
    assert_eq!(late.claim(&claim("a", 100)).await?.len(), left);
    assert_eq!(late.claim(&claim("a", 100)).await?, []);
    let rest = 98 - MAILBOX_REORDER_MESSAGES_MAX - 5 - left;
    assert_eq!(
        handles[1].claim(&claim("a", 100)).await?.len(),
        rest,
        "nothing that it inherited is outstanding"
    );
    Ok(())
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_start_together_deliver_32_in_total() -> TestResult {
    let pool = pool().await;
    let options = fresh(&pool).await;
    start_together(pool, options).await
}

/// Holds: MBX-G-9, RULE-11.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_start_together_behind_a_pooler_deliver_32_in_total() -> TestResult {
    let (pool, options) = pooled::fresh().await;
    start_together(pool, options).await
}
