//! Inside a transaction of the caller's, and beside one that takes its time.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Claim, Delivery, Extended, Hold, Interest, Keep, Key, Kind, Namespace, NewMessage,
    Owner, Payload, Recorded, Settled, Span, State, Store, StoreExt, Topic, Topics, TransactionalStore,
};
use oncebox_store_postgres::PostgresStore;
use sqlx::{Executor, PgPool, Row};

use crate::{fresh, pool};

const LEASE: Duration = Duration::from_secs(30);
const HOLD: Hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_secs(60)) };

struct Desk {
    pool: PgPool,
    store: Arc<PostgresStore>,
    ledger: String,
}

/// A store on the server's own clock, and a table of somebody else's beside it.
async fn desk() -> Desk {
    let pool = pool().await;
    let options = fresh(&pool).await;
    let ledger = format!("\"{}\".ledger", options.schema.name().replace('"', "\"\""));
    let create = format!("create table {ledger} (payment text primary key)");
    pool.execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    let store = Arc::new(PostgresStore::new(pool.clone(), &options));
    Desk { pool, store, ledger }
}

impl Desk {
    fn insert(&self, payment: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(format!("insert into {} values ('{payment}')", self.ledger))
    }

    async fn booked(&self) -> i64 {
        let count = sqlx::AssertSqlSafe(format!("select count(*) from {}", self.ledger));
        self.pool.fetch_one(count).await.unwrap().get(0)
    }

    async fn take(&self) -> Vec<Delivery> {
        self.store.claim(&claim()).await.unwrap()
    }

    async fn state(&self, id: &str) -> Option<State> {
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

/// A message that is taken in with somebody's own row is there with it, and not without it.
/// Holds: CMD-17, RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_taken_in_commits_with_the_caller_or_not_at_all() {
    let desk = desk().await;
    let mut wakeups = desk.store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL });

    let mut transaction = desk.store.begin_transaction().await.unwrap();
    let (accepted, _) = desk.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(is_new(&accepted));
    transaction.execute(desk.insert("1")).await.unwrap();
    transaction.rollback().await.unwrap();
    assert_eq!((desk.booked().await, desk.state("1").await), (0, None));

    let mut transaction = desk.store.begin_transaction().await.unwrap();
    let (accepted, wake) = desk.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(is_new(&accepted));
    let (again, _) = desk.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(matches!(again[..], [Accepted::Duplicate { .. }]), "{again:?}");
    transaction.execute(desk.insert("1")).await.unwrap();
    assert_eq!(
        (desk.take().await.len(), desk.state("1").await),
        (0, None),
        "nothing shows before the commit"
    );
    desk.store.commit(transaction).await.unwrap();
    assert_eq!((desk.booked().await, desk.state("1").await), (1, Some(State::Processing)));
    wake.fire();
    wakeups.wait().await;
    assert_eq!(desk.take().await.len(), 1);
}

/// Nobody is woken by a transaction before it is committed, and whoever waits is woken then: for what it took in, and for what it gave
/// back. Not a ring from before counts.
/// Holds: CMD-17, RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_wakes_after_its_commit_and_not_before() {
    let desk = desk().await;
    let mut wakeups = desk.store.wakeups(Interest { namespace: Namespace::Inbox, topics: Topics::ALL });
    let mut transaction = desk.store.begin_transaction().await.unwrap();
    let (_, wake) = desk.store.accept_in(&mut transaction, &[message("1")]).await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "by what is not committed");
    desk.store.commit(transaction).await.unwrap();
    wake.fire();
    assert!(is_woken(&mut *wakeups).await, "by what was committed");
    assert!(!is_woken(&mut *wakeups).await, "once");

    let delivery = desk.take().await.remove(0);
    let mut transaction = desk.store.begin_transaction().await.unwrap();
    let (_, wake) = desk.store.settle_in(&mut transaction, &[delivery.release()]).await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "by what is not committed");
    desk.store.commit(transaction).await.unwrap();
    wake.fire();
    assert!(is_woken(&mut *wakeups).await, "by what was given back");

    let mut transaction = desk.store.begin_transaction().await.unwrap();
    let (_, wake) = desk.store.accept_in(&mut transaction, &[message("2")]).await.unwrap();
    drop(wake);
    transaction.rollback().await.unwrap();
    assert!(!is_woken(&mut *wakeups).await, "by what never happened");
}

/// Whether it has been woken since it was last asked.
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
    let desk = desk().await;
    desk.store.accept(&[message("1")]).await.unwrap();
    let delivery = desk.take().await.remove(0);

    let mut transaction = desk.store.begin_transaction().await.unwrap();
    transaction.execute(desk.insert("1")).await.unwrap();
    let (settled, _) = desk.store.settle_in(&mut transaction, &[delivery.ack()]).await.unwrap();
    assert_eq!(settled, [Settled::Done]);
    transaction.rollback().await.unwrap();
    assert_eq!((desk.booked().await, desk.state("1").await), (0, Some(State::Processing)));

    let mut transaction = desk.store.begin_transaction().await.unwrap();
    transaction.execute(desk.insert("1")).await.unwrap();
    let (settled, _) = desk.store.settle_in(&mut transaction, &[delivery.ack()]).await.unwrap();
    assert_eq!(settled, [Settled::Done]);
    desk.store.commit(transaction).await.unwrap();
    assert_eq!((desk.booked().await, desk.state("1").await), (1, Some(State::Done)));
    // Told again, it is answered the same, also by the ordinary way.
    assert_eq!(desk.store.settle(&[delivery.ack()]).await.unwrap(), [Settled::Done]);
}

/// The classic inbox: record the key, do the work, commit. Whoever comes second does nothing, also if both come at once.
/// Holds: RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_is_recorded_by_one_of_two_transactions() {
    let desk = desk().await;
    let mut first = desk.store.begin_transaction().await.unwrap();
    let recorded = desk.store.record_in(&mut first, &key("1"), HOLD).await.unwrap();
    assert!(matches!(recorded, Recorded::First(_)));
    first.execute(desk.insert("1")).await.unwrap();

    let rival = Arc::clone(&desk.store);
    let second = tokio::spawn(async move {
        let mut second = rival.begin_transaction().await.unwrap();
        let recorded = rival.record_in(&mut second, &key("1"), HOLD).await.unwrap();
        rival.commit(second).await.unwrap();
        recorded
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!second.is_finished(), "it waits for the first");
    desk.store.commit(first).await.unwrap();
    let (Recorded::First(told) | Recorded::Duplicate(told)) = recorded;
    match second.await.unwrap() {
        Recorded::Duplicate(receipt) => assert_eq!(receipt.uid, told.uid),
        Recorded::First(_) => panic!("recorded twice"),
    }
    assert_eq!(desk.booked().await, 1);

    let mut third = desk.store.begin_transaction().await.unwrap();
    assert!(matches!(desk.store.record_in(&mut third, &key("2"), HOLD).await.unwrap(), Recorded::First(_)));
    third.rollback().await.unwrap();
    let mut fourth = desk.store.begin_transaction().await.unwrap();
    assert!(matches!(desk.store.record_in(&mut fourth, &key("2"), HOLD).await.unwrap(), Recorded::First(_)));
    desk.store.commit(fourth).await.unwrap();
    assert_eq!(desk.state("2").await, Some(State::Done));
}

/// A transaction that takes its time holds up its own keys and messages, and nobody else's.
/// Holds: RULE-13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_transaction_holds_up_only_what_it_touched() {
    let desk = desk().await;
    desk.store.accept(&["a", "b", "c"].map(message)).await.unwrap();
    let taken = desk.take().await;
    let [held, other] = [&taken[0], &taken[1]];

    let mut slow = desk.store.begin_transaction().await.unwrap();
    desk.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    desk.store.settle_in(&mut slow, &[held.ack()]).await.unwrap();

    // While it is open: other keys are taken in, also together with one that it has; other leases are extended and settled.
    assert!(is_new(&desk.store.accept(&[message("d")]).await.unwrap()));
    let mixed = Arc::clone(&desk.store);
    let mixed = tokio::spawn(async move { mixed.accept(&[message("e"), message("new")]).await.unwrap() });
    let extension = other.extend(Span::lease(LEASE).unwrap());
    assert!(matches!(desk.store.extend(&[extension]).await.unwrap()[..], [Extended::Until(_)]));
    assert_eq!(desk.store.settle(&[other.ack()]).await.unwrap(), [Settled::Done]);
    assert_eq!(desk.take().await.len(), 1, "what is not touched is claimed");
    assert!(!mixed.is_finished(), "whoever needs its key waits for it");
    let held_by_it = Arc::clone(&desk.store);
    let ack = held.ack();
    let acked = tokio::spawn(async move { held_by_it.settle(&[ack]).await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!acked.is_finished(), "whoever needs its message waits for it");

    desk.store.commit(slow).await.unwrap();
    let accepted = mixed.await.unwrap();
    assert!(matches!(accepted[..], [Accepted::New { .. }, Accepted::Duplicate { .. }]), "{accepted:?}");
    assert_eq!(acked.await.unwrap(), [Settled::Done], "the same acknowledgement again");
}

/// Who speaks for many is told at once that somebody holds a call up, and nothing has happened.
/// Holds: RULE-13.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hasty_call_is_told_that_it_is_held_up() {
    let desk = desk().await;
    let hasty = desk.store.hasty();
    desk.store.accept(&["a", "b"].map(message)).await.unwrap();
    let taken = desk.take().await;
    let mut slow = desk.store.begin_transaction().await.unwrap();
    desk.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    desk.store.settle_in(&mut slow, &[taken[0].ack()]).await.unwrap();

    let refused = hasty.accept(&[message("x"), message("new")]).await.unwrap_err();
    assert!(refused.is_held_up() && refused.is_retryable(), "{refused}");
    assert_eq!(desk.state("x").await, None, "nothing happened");
    let refused = hasty.work(&[taken[1].ack(), taken[0].ack()], &[claim()]).await.unwrap_err();
    assert!(refused.is_held_up(), "{refused}");
    let refused = hasty.observe(&[sighting("a")]).await.unwrap_err();
    assert!(refused.is_held_up(), "{refused}");
    assert!(is_new(&hasty.accept(&[message("x")]).await.unwrap()), "others go on");
    let refused = hasty.extend(&[taken[0].extend(Span::lease(LEASE).unwrap())]).await.unwrap_err();
    assert!(refused.is_held_up(), "{refused}");

    desk.store.commit(slow).await.unwrap();
    let settled = hasty.work(&[taken[1].ack(), taken[0].ack()], &[]).await.unwrap().settled;
    assert_eq!(settled, [Settled::Done, Settled::Done], "a repeat answers the same");
}

/// A repeat of it would call its own messages duplicates.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hasty_call_that_has_taken_something_in_goes_on_to_its_end() {
    let desk = desk().await;
    let full = |id| {
        let content = NewMessage::new(key(id), Topic::new("full").unwrap(), Payload::new("{}").unwrap());
        NewMessage { lane_max: NonZeroU32::new(1), ..content }
    };
    assert!(is_new(&desk.store.accept(&[full("a")]).await.unwrap()));
    let mut slow = desk.store.begin_transaction().await.unwrap();
    desk.store.accept_in(&mut slow, &[message("new")]).await.unwrap();
    let hasty = desk.store.hasty();
    let call = tokio::spawn(async move { hasty.accept(&[message("x"), full("b"), message("new")]).await });
    while desk.state("x").await.is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Longer than it would wait if it could be told to come again.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!call.is_finished());
    desk.store.commit(slow).await.unwrap();
    let accepted = call.await.unwrap().unwrap();
    let expected = matches!(
        accepted[..],
        [Accepted::New { .. }, Accepted::Saturated { .. }, Accepted::Duplicate { .. }]
    );
    assert!(expected, "{accepted:?}");
}

fn sighting(id: &str) -> oncebox_core::Sighting {
    oncebox_core::Sighting { key: key(id), hash: None, hold: HOLD }
}

/// On a connection without a transaction, half of a call could be committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_without_a_transaction_is_rejected() {
    let pool = pool().await;
    let store = PostgresStore::new(pool.clone(), &fresh(&pool).await);
    let mut connection = pool.acquire().await.unwrap();
    let refused = [
        store.accept_in(&mut connection, &[message("1")]).await.map(drop),
        store.settle_in(&mut connection, &[]).await.map(drop),
        store.record_in(&mut connection, &key("1"), HOLD).await.map(drop),
    ];
    for refused in refused {
        assert_eq!(refused.err().map(|error| error.kind()), Some(Kind::Invalid));
    }
    assert_eq!(store.get(&[key("1").into()]).await.unwrap(), [None]);
}
