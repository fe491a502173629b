//! A process that begins to serve does not run far ahead of what was out before it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::MAILBOX_REORDER_MESSAGES_MAX;
use oncebox_core::{
    Batch, Claim, Delivery, Id, Key, Namespace, NewMessage, Owner, Payload, Source, Span, Store, StoreExt,
    Topic, Topics,
};
use oncebox_store_postgres::PostgresStore;
use oncebox_testkit::{ManualClock, TestResult};

use crate::{fresh, pool};

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
    let mut options = fresh(&pool).await;
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    let store = PostgresStore::new(pool.clone(), &options);
    let messages: Vec<_> = (0..100).flat_map(|number| [mail("a", number), mail("b", number)]).collect();
    store.accept(&messages).await.unwrap();
    let before = store.claim(&claim("a", 2)).await.unwrap();
    assert_eq!(before.len(), 2);
    drop(store);
    Restarted { before, after: Arc::new(PostgresStore::new(pool, &options)), clock }
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
    assert_eq!(after.usage().await?.reorder_depth_max, MAILBOX_REORDER_MESSAGES_MAX as u64);

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
    assert_eq!(after.usage().await?.reorder_depth_max, MAILBOX_REORDER_MESSAGES_MAX as u64);
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
