//! Two handles on one database that do not share their caches.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Batch, Claim, Interest, Key, Namespace, NewMessage, Owner, Payload, RecordId, RecordKind, RecordOp,
    RecordOutcome, RecordValue, RecordVersion, Span, Store, StoreExt, Topic, Topics, WhenFull,
    WriteCondition,
};
use oncebox_store_postgres::PostgresStore;
use oncebox_testkit::{Fixture, ManualClock, TestResult, handles};

use crate::{fresh, pool};

/// A store, and another handle on the same tables that shares nothing with it.
async fn two() -> (Fixture, Arc<dyn Store>) {
    let pool = pool().await;
    let mut options = fresh(&pool).await;
    let clock = Arc::new(ManualClock::default());
    options.clock = Some(clock.clone());
    let [ours, theirs] = [0; 2].map(|_| Arc::new(PostgresStore::new(pool.clone(), &options)));
    (Fixture { store: ours, time: clock }, theirs)
}

/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_in_one_topic_starves_no_other_that_another_process_fills() -> TestResult {
    let (fixture, other) = two().await;
    handles::a_backlog_in_one_topic_starves_no_other(&fixture, &other).await
}

/// More lanes than a process remembers, filled by another one: the cache is empty at first and full later, and
/// nothing waits for it.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_topics_that_another_process_filled_are_all_served() -> TestResult {
    let (fixture, other) = two().await;
    handles::thousands_of_topics_are_all_served(&fixture, &other).await
}

/// The process that filled thousands of topics also serves those that it does not remember.
/// Holds: RULE-11, RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_topics_are_all_served_by_the_process_that_filled_them() -> TestResult {
    let (fixture, _) = two().await;
    let same = fixture.store.clone();
    handles::thousands_of_topics_are_all_served(&fixture, &same).await
}

/// A listener is notified of messages of its own process. Messages of another process cause no notification, and the
/// next claim at the poll interval gets them anyway, before and after a notification.
/// Holds: RULE-25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_without_a_notification_are_claimed() -> TestResult {
    let (fixture, other) = two().await;
    let ours = &fixture.store;
    let message = |id: &str| -> Result<NewMessage, oncebox_core::Error> {
        Ok(NewMessage::new(Key::inbox("shop", id)?, Topic::new("orders")?, Payload::new("{}")?))
    };
    let (owner, lease) = (Owner::new(7)?, Span::lease(Duration::from_secs(60))?);
    let claim = Claim::new(Namespace::Inbox, owner, lease, Batch::new(10)?);
    let mut wakeups = ours.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL });
    for id in ["1", "2"] {
        other.accept_one(&message(id)?).await?;
        let notified = tokio::time::timeout(Duration::ZERO, wakeups.wait()).await;
        assert!(notified.is_err(), "no notification for messages of other processes");
        assert_eq!(ours.claim(&claim).await?.len(), 1, "{id}");
        ours.accept_one(&message(&format!("own {id}"))?).await?;
        wakeups.wait().await;
        assert_eq!(ours.claim(&claim).await?.len(), 1, "own {id}");
    }
    Ok(())
}

/// Of the writers in two processes that expect the same version, one takes effect; no version is given twice, and a kind
/// is full for both at the same number of records.
/// Holds: RULE-32.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_write_records_one_after_the_other() -> TestResult {
    const KIND: RecordKind = RecordKind::new("race", 5, WhenFull::Refuse);
    const WRITERS: u64 = 8;
    let (fixture, other) = two().await;
    let stores = [fixture.store.clone(), other];
    let write = async |id: String, condition| {
        let writers = (0..WRITERS).map(|writer| {
            let store = stores[usize::try_from(writer % 2).unwrap()].clone();
            let id = RecordId::new(if id.is_empty() { writer.to_string() } else { id.clone() }).unwrap();
            let value = RecordValue::new(writer.to_string()).unwrap();
            tokio::spawn(async move {
                store.record(RecordOp::Put { kind: KIND, id, value, condition, keep: None }).await
            })
        });
        let mut outcomes = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            outcomes.push(writer.await.unwrap().unwrap());
        }
        outcomes
    };
    let mut condition = WriteCondition::Absent;
    let mut last = RecordVersion(0);
    for _ in 0..20 {
        let outcomes = write("one".to_owned(), condition).await;
        let written = outcomes.iter().filter_map(|outcome| match outcome {
            RecordOutcome::Written(version) => Some(*version),
            _ => None,
        });
        let [version] = written.collect::<Vec<_>>()[..] else { panic!("one writer succeeds: {outcomes:?}") };
        assert!(version > last);
        for conflict in outcomes {
            let RecordOutcome::Conflict(found) = conflict else { continue };
            assert_eq!(found.unwrap().version, version);
        }
        (last, condition) = (version, WriteCondition::Version(version));
    }
    let outcomes = write(String::new(), WriteCondition::Absent).await;
    let full = outcomes.iter().filter(|outcome| matches!(outcome, RecordOutcome::Full(_))).count();
    assert_eq!(full, 4, "the kind has five records, one of them from before: {outcomes:?}");
    Ok(())
}
