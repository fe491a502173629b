//! Operations inside the caller's transaction, and concurrent with a slow one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Delivery, ErrorKind, Extended, Hold, Interest, Keep, Key, MessageState,
    Namespace, NewMessage, Owner, Payload, Recorded, Settled, Span, Store, StoreExt, Topic, Topics,
    TransactionalStore,
};
use oncebox_store_postgres::PostgresStore;
use sqlx::{Executor, PgPool, Row};

use crate::{fresh, pool};

const LEASE: Duration = Duration::from_secs(30);
const HOLD: Hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_secs(60)) };

struct Setup {
    pool: PgPool,
    store: Arc<PostgresStore>,
    ledger: String,
}

/// A store on the server's clock, and an application's table.
async fn setup() -> Setup {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let ledger = format!("\"{}\".ledger", options.schema.name().replace('"', "\"\""));
    let create = format!("create table {ledger} (payment text primary key)");
    pool.execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    let store = Arc::new(PostgresStore::new(pool.clone(), &options));
    Setup { pool, store, ledger }
}

impl Setup {
    fn insert(&self, payment: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(format!("insert into {} values ('{payment}')", self.ledger))
    }

    async fn payments(&self) -> i64 {
        let count = sqlx::AssertSqlSafe(format!("select count(*) from {}", self.ledger));
        self.pool.fetch_one(count).await.unwrap().get(0)
    }

    async fn claim(&self) -> Vec<Delivery> {
        self.store.claim(&claim()).await.unwrap()
    }

    async fn state(&self, id: &str) -> Option<MessageState> {
        let found = self.store.get(&[key(id).into()]).await.unwrap().remove(0);
        found.map(|message| message.state)
    }
}

fn key(id: &str) -> Key {
    Key::inbox("shop", id).unwrap()
}

fn message(id: &str) -> NewMessage {
    NewMessage::new(key(id), Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

fn claim() -> Claim {
    let (owner, lease) = (Owner::new(7).unwrap(), Span::lease(LEASE).unwrap());
    Claim::new(Namespace::Inbox, owner, lease, Batch::new(10).unwrap())
}

fn is_new(accepted: &[Accepted]) -> bool {
    matches!(accepted, [Accepted::New { .. }])
}

/// A message that is accepted together with the application's own row is committed with it or not at all.
/// Holds: CMD-17, RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepted_messages_commit_with_the_caller_or_not_at_all() {
    let setup = setup().await;
    let mut wakeups = setup.store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL });

    let mut transaction = setup.store.begin_transaction().await.unwrap();
    let (accepted, _) = setup.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(is_new(&accepted));
    transaction.execute(setup.insert("1")).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!((setup.payments().await, setup.state("1").await), (0, None));

    let mut transaction = setup.store.begin_transaction().await.unwrap();
    let (accepted, wake) = setup.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(is_new(&accepted));
    let (again, _) = setup.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(matches!(again[..], [Accepted::Duplicate { .. }]), "{again:?}");
    transaction.execute(setup.insert("1")).await.unwrap();
    assert_eq!(
        (setup.claim().await.len(), setup.state("1").await),
        (0, None),
        "nothing is visible before the commit"
    );
    setup.store.commit(transaction).await.unwrap();
    assert_eq!((setup.payments().await, setup.state("1").await), (1, Some(MessageState::Processing)));
    wake.fire();
    wakeups.wait().await;
    assert_eq!(setup.claim().await.len(), 1);
}

/// A transaction wakes no listener before its commit, and wakes them after it: for messages that it accepted and for
/// those that it released. No earlier notification counts.
/// Holds: CMD-17, RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_notifies_after_its_commit_and_not_before() {
    let setup = setup().await;
    let mut wakeups = setup.store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL });
    let mut transaction = setup.store.begin_transaction().await.unwrap();
    let (_, wake) = setup.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "before the commit");
    setup.store.commit(transaction).await.unwrap();
    wake.fire();
    assert!(is_woken(&mut *wakeups).await, "after the commit");
    assert!(!is_woken(&mut *wakeups).await, "only once");

    let delivery = setup.claim().await.remove(0);
    let mut transaction = setup.store.begin_transaction().await.unwrap();
    let (_, wake) = setup.store.settle_in(&mut transaction, &[delivery.release()]).await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "before the commit");
    setup.store.commit(transaction).await.unwrap();
    wake.fire();
    assert!(is_woken(&mut *wakeups).await, "by the released message");

    let mut transaction = setup.store.begin_transaction().await.unwrap();
    let (_, wake) = setup.store.accept_in(&mut transaction, &[message("2")]).await.unwrap();
    drop(wake);
    transaction.rollback().await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "after a rollback");
}

/// Whether a notification has arrived since the last call.
async fn is_woken(wakeups: &mut dyn oncebox_core::Wakeups) -> bool {
    tokio::select! {
        biased;
        () = wakeups.wait() => true,
        () = std::future::ready(()) => false,
    }
}

/// An acknowledgement commits with the handler's own writes, or neither does.
/// Holds: RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_commits_with_the_caller_or_not_at_all() {
    let setup = setup().await;
    setup.store.accept(&[message("1")]).await.unwrap();
    let delivery = setup.claim().await.remove(0);

    let mut transaction = setup.store.begin_transaction().await.unwrap();
    transaction.execute(setup.insert("1")).await.unwrap();
    let (settled, _) = setup.store.settle_in(&mut transaction, &[delivery.ack()]).await.unwrap();
    assert_eq!(settled, [Settled::Done]);
    transaction.rollback().await.unwrap();
    assert_eq!((setup.payments().await, setup.state("1").await), (0, Some(MessageState::Processing)));

    let mut transaction = setup.store.begin_transaction().await.unwrap();
    transaction.execute(setup.insert("1")).await.unwrap();
    let (settled, _) = setup.store.settle_in(&mut transaction, &[delivery.ack()]).await.unwrap();
    assert_eq!(settled, [Settled::Done]);
    setup.store.commit(transaction).await.unwrap();
    assert_eq!((setup.payments().await, setup.state("1").await), (1, Some(MessageState::Done)));
    // A repeat gets the same answer, also outside a transaction.
    assert_eq!(setup.store.settle(&[delivery.ack()]).await.unwrap(), [Settled::Done]);
}

/// The classic inbox: record the key, do the work, commit. The second transaction does nothing, also if both run
/// concurrently.
/// Holds: RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_recorded_by_one_of_two_transactions() {
    let setup = setup().await;
    let mut first = setup.store.begin_transaction().await.unwrap();
    let recorded = setup.store.record_in(&mut first, &key("1"), HOLD).await.unwrap();
    assert!(matches!(recorded, Recorded::First(_)));
    first.execute(setup.insert("1")).await.unwrap();

    let rival = Arc::clone(&setup.store);
    let second = tokio::spawn(async move {
        let mut second = rival.begin_transaction().await.unwrap();
        let recorded = rival.record_in(&mut second, &key("1"), HOLD).await.unwrap();
        rival.commit(second).await.unwrap();
        recorded
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!second.is_finished(), "it waits for the first transaction");
    setup.store.commit(first).await.unwrap();
    let (Recorded::First(first_record) | Recorded::Duplicate(first_record)) = recorded;
    match second.await.unwrap() {
        Recorded::Duplicate(summary) => assert_eq!(summary.uid, first_record.uid),
        Recorded::First(_) => panic!("recorded twice"),
    }
    assert_eq!(setup.payments().await, 1);

    let mut third = setup.store.begin_transaction().await.unwrap();
    assert!(matches!(setup.store.record_in(&mut third, &key("2"), HOLD).await.unwrap(), Recorded::First(_)));
    third.rollback().await.unwrap();
    let mut fourth = setup.store.begin_transaction().await.unwrap();
    assert!(matches!(setup.store.record_in(&mut fourth, &key("2"), HOLD).await.unwrap(), Recorded::First(_)));
    setup.store.commit(fourth).await.unwrap();
    assert_eq!(setup.state("2").await, Some(MessageState::Done));
}

/// A slow transaction blocks calls that need its own keys and messages, and no others.
/// Holds: RULE-13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_transaction_blocks_only_what_it_touched() {
    let setup = setup().await;
    setup.store.accept(&["a", "b", "c"].map(message)).await.unwrap();
    let deliveries = setup.claim().await;
    let [held, other] = [&deliveries[0], &deliveries[1]];

    let mut slow = setup.store.begin_transaction().await.unwrap();
    setup.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    setup.store.settle_in(&mut slow, &[held.ack()]).await.unwrap();

    // While it is open, other keys are accepted, also in one call with a key that it holds; other leases are extended
    // and settled.
    assert!(is_new(&setup.store.accept(&[message("d")]).await.unwrap()));
    let mixed = Arc::clone(&setup.store);
    let mixed = tokio::spawn(async move { mixed.accept(&[message("e"), message("new")]).await.unwrap() });
    let extension = other.extend(Span::lease(LEASE).unwrap());
    assert!(matches!(setup.store.extend(&[extension]).await.unwrap()[..], [Extended::Until(_)]));
    assert_eq!(setup.store.settle(&[other.ack()]).await.unwrap(), [Settled::Done]);
    assert_eq!(setup.claim().await.len(), 1, "untouched messages are claimed");
    assert!(!mixed.is_finished(), "a call that needs its key waits");
    let held_by_it = Arc::clone(&setup.store);
    let ack = held.ack();
    let acked = tokio::spawn(async move { held_by_it.settle(&[ack]).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!acked.is_finished(), "a call that needs its message waits");

    setup.store.commit(slow).await.unwrap();
    let accepted = mixed.await.unwrap();
    assert!(matches!(accepted[..], [Accepted::New { .. }, Accepted::Duplicate { .. }]), "{accepted:?}");
    assert_eq!(acked.await.unwrap(), [Settled::Done], "the same acknowledgement again");
}

/// A blocked call with a lock timeout fails soon, and nothing has changed.
/// Holds: RULE-13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocked_call_with_a_lock_timeout_fails() {
    let setup = setup().await;
    let fail_fast = setup.store.with_lock_timeout();
    setup.store.accept(&["a", "b"].map(message)).await.unwrap();
    let deliveries = setup.claim().await;
    let mut slow = setup.store.begin_transaction().await.unwrap();
    setup.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    setup.store.settle_in(&mut slow, &[deliveries[0].ack()]).await.unwrap();

    let error = fail_fast.accept(&[message("x"), message("new")]).await.unwrap_err();
    assert!(error.is_blocked() && error.is_retryable(), "{error}");
    assert_eq!(setup.state("x").await, None, "nothing was changed");
    let error = fail_fast.work(&[deliveries[1].ack(), deliveries[0].ack()], &[claim()]).await.unwrap_err();
    assert!(error.is_blocked(), "{error}");
    let error = fail_fast.observe(&[observation("a")]).await.unwrap_err();
    assert!(error.is_blocked(), "{error}");
    assert!(is_new(&fail_fast.accept(&[message("x")]).await.unwrap()), "other calls succeed");
    let extended = fail_fast.extend(&[deliveries[0].extend(Span::lease(LEASE).unwrap())]).await.unwrap();
    assert_eq!(extended, [Extended::Locked]);

    setup.store.commit(slow).await.unwrap();
    let settled = fail_fast.work(&[deliveries[1].ack(), deliveries[0].ack()], &[]).await.unwrap().settled;
    assert_eq!(settled, [Settled::Done, Settled::Done], "a repeat answers the same");
}

/// A retry would report the call's own messages as duplicates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partly_accepted_call_with_a_lock_timeout_runs_to_completion() {
    let setup = setup().await;
    let full = |id| {
        let content = NewMessage::new(key(id), Topic::new("full").unwrap(), Payload::new("{}").unwrap());
        NewMessage { lane_max: NonZeroU32::new(1), ..content }
    };
    assert!(is_new(&setup.store.accept(&[full("a")]).await.unwrap()));
    let mut slow = setup.store.begin_transaction().await.unwrap();
    setup.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    let fail_fast = setup.store.with_lock_timeout();
    let call =
        tokio::spawn(async move { fail_fast.accept(&[message("x"), full("b"), message("new")]).await });
    while setup.state("x").await.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Longer than the lock timeout.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!call.is_finished());
    setup.store.commit(slow).await.unwrap();
    let accepted = call.await.unwrap().unwrap();
    let expected = matches!(
        accepted[..],
        [Accepted::New { .. }, Accepted::Saturated { .. }, Accepted::Duplicate { .. }]
    );
    assert!(expected, "{accepted:?}");
}

fn observation(id: &str) -> oncebox_core::Observation {
    oncebox_core::Observation { key: key(id), hash: None, hold: HOLD }
}

/// On a connection without a transaction, half of a call could be committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_transaction_is_rejected() {
    let pool = pool().await;
    let store = PostgresStore::new(pool.clone(), &fresh(&pool).await);
    let mut connection = pool.acquire().await.unwrap();
    let error = [
        store.accept_in(&mut connection, &[message("1")]).await.map(drop),
        store.settle_in(&mut connection, &[]).await.map(drop),
        store.record_in(&mut connection, &key("1"), HOLD).await.map(drop),
    ];
    for error in error {
        assert_eq!(error.err().map(|error| error.kind()), Some(ErrorKind::Invalid));
    }
    assert_eq!(store.get(&[key("1").into()]).await.unwrap(), [None]);
}
