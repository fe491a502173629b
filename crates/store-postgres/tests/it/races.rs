//! Concurrent transactions on the same messages.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Claim, DeadReason, Delivery, Extended, Key, MessageState, Namespace, NewMessage, Owner, Partition,
    Payload, RequestId, Settled, Span, Store, StoreExt, Topic, TransactionalStore, Verdict,
};
use oncebox_store_postgres::PostgresStore;
use sqlx::{Executor, Row};

use crate::{fresh, pool};

const LEASE: Duration = Duration::from_secs(30);
/// Enough messages that the planner uses the index.
const MESSAGES: u32 = 2_000;

fn message(id: u32) -> NewMessage {
    let key = Key::inbox("shop", id.to_string()).unwrap();
    NewMessage::new(key, Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

fn claim(owner: u128, batch: u32) -> Claim {
    let (owner, lease) = (Owner::new(owner).unwrap(), Span::lease(LEASE).unwrap());
    Claim::new(Namespace::Inbox, owner, lease, Batch::new(batch).unwrap())
}

/// A store with messages, its pool, and its schema's quoted name.
async fn filled() -> (Arc<PostgresStore>, sqlx::PgPool, String) {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let store = Arc::new(PostgresStore::new(pool.clone(), &options));
    let messages: Vec<_> = (0..MESSAGES).map(message).collect();
    store.accept(&messages).await.unwrap();
    pool.execute("analyze").await.unwrap();
    let schema = format!("\"{}\"", options.schema.name().replace('"', "\"\""));
    (store, pool, schema)
}

/// A settlement that waits for another transaction's lock on its message is applied like any other.
/// Holds: RULE-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_that_waited_for_a_lock_is_applied() {
    let (store, _, _) = filled().await;
    let deliveries = store.claim(&claim(7, 6)).await.unwrap();
    let again = message(deliveries[2].key.id.as_str().parse().unwrap());
    let mut slow = store.begin_transaction().await.unwrap();
    store.accept_in(&mut slow, &[again]).await.unwrap();
    let settlements: Vec<_> = deliveries.iter().map(oncebox_core::Delivery::release).collect();
    let waiting = Arc::clone(&store);
    let waiting = tokio::spawn(async move { waiting.settle(&settlements).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "it waits for the lock on its message");
    store.commit(slow).await.unwrap();
    assert_eq!(waiting.await.unwrap(), [Settled::Released; 6]);
}

/// An acknowledgement that waits for a transaction which ends its lease finds the lease lost: the message is not
/// acknowledged.
/// Holds: RULE-05, IBX-046.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ack_that_waited_for_the_end_of_its_lease_is_lost() {
    let (store, pool, schema) = filled().await;
    // The statement waits as long as necessary, and does not fall back to the slow path meanwhile.
    let no_timeout = format!("alter function {schema}.work_1 set lock_timeout = '120s'");
    pool.execute(sqlx::AssertSqlSafe(no_timeout)).await.unwrap();
    let delivery = store.claim(&claim(7, 1)).await.unwrap().remove(0);
    let mut ending = store.begin_transaction().await.unwrap();
    let (settled, _) = store.settle_in(&mut ending, &[delivery.release()]).await.unwrap();
    assert_eq!(settled, [Settled::Released]);
    let (waiting, ack) = (Arc::clone(&store), delivery.ack());
    let waiting = tokio::spawn(async move { waiting.settle(&[ack]).await.unwrap() });
    let waits =
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%work_1%'";
    let waited = async {
        while pool.fetch_one(waits).await.unwrap().get::<i64, _>(0) == 0 {
            assert!(!waiting.is_finished(), "it did not wait for the lock on its message");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within_two_minutes("the acknowledgement to wait", waited).await;
    store.commit(ending).await.unwrap();
    assert_eq!(within_two_minutes("its answer", waiting).await.unwrap(), [Settled::LeaseLost]);
    let found = store.get(&[delivery.uid.into()]).await.unwrap().remove(0).unwrap();
    assert_eq!(found.state, MessageState::Processing, "it was released, not acknowledged");
}

/// Only a hang takes that long.
async fn within_two_minutes<T>(what: &str, wait: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(Duration::from_secs(120), wait).await;
    waited.unwrap_or_else(|_| panic!("two minutes were not enough for {what}"))
}

/// Claims and maintenance skip messages that another transaction has locked: neither waits, and both process the
/// rest.
/// Holds: CMD-08, RULE-13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locked_messages_are_skipped_and_the_rest_is_served() {
    let (store, pool, schema) = filled().await;
    let lapsing = Claim { lease: Span::lease(Duration::from_millis(1)).unwrap(), ..claim(7, 2) };
    let lapsed = store.claim(&lapsing).await.unwrap();
    let mut slow = pool.begin().await.unwrap();
    let hold = format!("select from {schema}.message where uid = $1 or id = '2' for update");
    let uid = sqlx::types::Uuid::from_u128(lapsed[0].uid.as_u128());
    slow.execute(sqlx::query(sqlx::AssertSqlSafe(hold)).bind(uid)).await.unwrap();
    let ended = async {
        // One lease can be ended; the other message is locked.
        let mut ended = 0;
        while ended == 0 {
            ended += store.maintain(oncebox_core::Budget::new(10)).await.unwrap().lapsed;
        }
        assert_eq!(ended, 1);
    };
    within_two_minutes("maintenance", ended).await;
    let claimed = within_two_minutes("a claim", store.claim(&claim(7, 3))).await.unwrap();
    let ids: Vec<_> = claimed.iter().map(|delivery| delivery.key.id.as_str()).collect();
    assert_eq!(ids, ["1", "3", "4"], "0 and 2 are locked");
    slow.rollback().await.unwrap();
}

/// A message that is locked for long delays its own acknowledgement, and none of the others in the same call.
/// Holds: RULE-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_message_does_not_block_other_acknowledgements() {
    let (store, pool, schema) = filled().await;
    let deliveries = store.claim(&claim(7, 6)).await.unwrap();
    let mut slow = pool.begin().await.unwrap();
    let hold = format!("select from {schema}.message where uid = $1 for update");
    let uid = sqlx::types::Uuid::from_u128(deliveries[2].uid.as_u128());
    slow.execute(sqlx::query(sqlx::AssertSqlSafe(hold)).bind(uid)).await.unwrap();
    let acks: Vec<_> = deliveries.iter().map(oncebox_core::Delivery::ack).collect();
    let acking = Arc::clone(&store);
    let acked = tokio::spawn(async move { acking.settle(&acks).await.unwrap() });
    let is_done = async |index: usize| {
        let found = store.get(&[deliveries[index].uid.into()]).await.unwrap();
        found[0].as_ref().is_some_and(|message| message.state == MessageState::Done)
    };
    let others_are_done = async {
        for index in [0, 1, 3, 4, 5] {
            while !is_done(index).await {
                assert!(!acked.is_finished(), "the call returned, and {index} is not acknowledged");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    // Only a hang takes that long.
    tokio::time::timeout(Duration::from_secs(120), others_are_done)
        .await
        .expect("the others are not blocked");
    assert!(!is_done(2).await, "its message is locked");
    slow.commit().await.unwrap();
    assert_eq!(acked.await.unwrap(), [Settled::Done; 6]);
}

/// A claim with a request id that loses some of its messages to a faster process gets each of the others once.
/// Holds: RULE-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_loses_messages_gets_the_rest_once() {
    let (store, pool, schema) = filled().await;
    // A lease of another process on the first free message, which is not visible before the commit.
    let steal = format!(
        "insert into {schema}.lease (uid, owner, fence, until, extend_max, check_at, namespace, in_flight)
         select m.uid, gen_random_uuid(), $1, 9e15::bigint, 9e15::bigint, 9e15::bigint, 0, true from {schema}.message m
          where not exists (select from {schema}.lease l where l.uid = m.uid) order by m.number limit 1"
    );
    for round in 1..=40_u32 {
        let mut faster = pool.begin().await.unwrap();
        let steal = sqlx::query(sqlx::AssertSqlSafe(steal.clone())).bind(i64::from(round));
        faster.execute(steal).await.unwrap();
        let mut claim = claim(7, 3);
        claim.request = Some(RequestId::from_u128(round.into()));
        let claimant = Arc::clone(&store);
        let claimed = tokio::spawn(async move { claimant.claim(&claim).await });
        tokio::time::sleep(Duration::from_millis(15)).await;
        faster.commit().await.unwrap();
        // On a slow machine the claim may time out waiting for the lock.
        let Ok(deliveries) = claimed.await.unwrap() else { continue };
        let uids: HashSet<_> = deliveries.iter().map(|delivery| delivery.uid).collect();
        assert_eq!(uids.len(), deliveries.len(), "round {round}: a message was delivered twice");
        assert!(deliveries.len() <= 3, "round {round}: {} deliveries", deliveries.len());
    }
}

/// A process with plenty of newer messages still finds messages that return to the beginning of their lane:
/// immediately those that it released itself, soon those that another process released or committed late.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_return_to_the_beginning_of_a_lane_are_found() {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let ours = PostgresStore::new(pool.clone(), &options);
    let theirs = PostgresStore::new(pool.clone(), &options);
    let mut late = theirs.begin_transaction().await.unwrap();
    let (_, wake) = theirs.accept_in(&mut late, &[message(0)]).await.unwrap();
    // One id block each: the first messages claimed are far behind.
    for id in 1..=200 {
        ours.accept(&[message(id)]).await.unwrap();
    }
    let released = theirs.claim(&claim(8, 1)).await.unwrap();
    let first = ours.claim(&claim(7, 1)).await.unwrap();
    assert_eq!((released[0].key.id.as_str(), first[0].key.id.as_str()), ("1", "2"));
    for _ in 3..=180 {
        ours.claim(&claim(7, 1)).await.unwrap();
    }
    ours.settle(&[first[0].release()]).await.unwrap();
    assert_eq!(
        ours.claim(&claim(7, 1)).await.unwrap()[0].key.id.as_str(),
        "2",
        "its own release, immediately"
    );

    theirs.settle(&[released[0].release()]).await.unwrap();
    theirs.commit(late).await.unwrap();
    wake.fire();
    let mut found = Vec::new();
    let search = async {
        // Each other message that is claimed is replaced, so there is always a newer one.
        for id in 1_000.. {
            let deliveries = ours.claim(&claim(7, 1)).await.unwrap();
            match deliveries[0].key.id.as_str() {
                id @ ("0" | "1") => found.push(id.to_owned()),
                _ => drop(ours.accept(&[message(id)]).await.unwrap()),
            }
            if found.len() == 2 {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), search).await.expect("both are found");
    assert_eq!(found, ["0", "1"]);
}

/// Messages that waited for their partition are found immediately when it becomes free, however far behind they are,
/// and however it became free.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_that_waited_for_their_partition_are_found_immediately() {
    let (store, first) = behind_a_busy_partition().await;
    store.settle(&[first.ack()]).await.unwrap();
    assert_eq!(next(&store).await, "1");

    let (store, first) = behind_a_busy_partition().await;
    let worked = store.work(&[first.ack()], &[claim(7, 2)]).await.unwrap();
    let ids: Vec<_> = worked.deliveries[0].iter().map(|delivery| delivery.key.id.as_str()).collect();
    assert_eq!(ids, ["1", "181"], "the call that frees the partition finds it");

    let (store, first) = behind_a_busy_partition().await;
    let dead = Verdict::Fail { reason: DeadReason::Failed, error: None };
    store.settle(&[first.settle(dead)]).await.unwrap();
    assert_eq!(next(&store).await, "1", "the message that blocked it is dead");
}

/// The id of the next message of [`behind_a_busy_partition`].
async fn next(store: &PostgresStore) -> String {
    store.claim(&claim(7, 1)).await.unwrap()[0].key.id.as_str().to_owned()
}

/// A store that has delivered messages 0 and 2 to 180 of 200: message 1 waits for its partition, which message 0
/// keeps busy.
async fn behind_a_busy_partition() -> (PostgresStore, Delivery) {
    let pool = pool().await;
    let store = PostgresStore::new(pool.clone(), &fresh(&pool).await);
    let partition = Some(Partition::new("one").unwrap());
    for id in 0..2 {
        let mut message = message(id);
        message.content.partition.clone_from(&partition);
        store.accept(&[message]).await.unwrap();
    }
    for id in 2..=200 {
        store.accept(&[message(id)]).await.unwrap();
    }
    let first = store.claim(&claim(7, 1)).await.unwrap().remove(0);
    assert_eq!(first.key.id.as_str(), "0");
    for _ in 2..=180 {
        assert_ne!(next(&store).await, "1", "its partition is busy");
    }
    (store, first)
}

/// A lease that another transaction has locked does not keep others from being extended, and is not taken for lost.
/// Holds: RULE-05.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_locked_lease_keeps_no_other_from_being_extended() {
    let (store, _, _) = filled().await;
    let deliveries = store.claim(&claim(7, 3)).await.unwrap();
    let again = message(deliveries[1].key.id.as_str().parse().unwrap());
    let mut open = store.begin_transaction().await.unwrap();
    store.accept_in(&mut open, &[again]).await.unwrap();
    let extensions: Vec<_> =
        deliveries.iter().map(|delivery| delivery.extend(Span::lease(LEASE * 2).unwrap())).collect();
    let extended = store.extend(&extensions).await.unwrap();
    let is_longer = |index: usize| matches!(extended[index], Extended::Until(until) if until > deliveries[index].lease.until);
    assert!(is_longer(0) && is_longer(2), "{extended:?}");
    assert_eq!(extended[1], Extended::Locked);
    store.commit(open).await.unwrap();
    let extended = store.extend(&extensions).await.unwrap();
    assert!(
        matches!(extended[1], Extended::Until(until) if until > deliveries[1].lease.until),
        "{extended:?}"
    );
    assert_eq!(store.settle(&[deliveries[2].ack()]).await.unwrap(), [Settled::Done]);
    let lost = store.extend(&extensions[2..]).await.unwrap();
    assert_eq!(lost, [Extended::LeaseLost]);
}
