//! Calls whose callers leave before the answer.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use oncebox_core::{
    Accepted, Action, Key, NewMessage, Order, Payload, Ref, Store, StoreExt, Topic, TransactionalStore,
};
use oncebox_store_postgres::{Options, PostgresStore};
use oncebox_testkit::servers::Postgres;

/// More than any of these calls takes on a connection that is there.
const POLLS_MAX: u32 = 12;
/// Of several attempts to leave right after `begin` was sent, some do.
const ROUNDS: u32 = 8;

fn key(id: &str) -> Key {
    Key::inbox("shop", id).unwrap()
}

fn message(id: &str) -> NewMessage {
    NewMessage::new(key(id), Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

/// Polls a call this often, as it is woken, and drops it then.
async fn leave_after<T>(polls: u32, call: impl Future<Output = T>) {
    let (mut call, mut left) = (pin!(call), polls);
    poll_fn(|context| {
        left = left.saturating_sub(1);
        if call.as_mut().poll(context).is_ready() || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A connection on which a transaction was begun for nobody is not given to the next call: what that does would never be committed.
/// Holds: RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_call_that_was_cancelled_is_committed() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let mut options = Options::default();
    options.ensure = true;
    // One connection, which all calls share.
    let store =
        PostgresStore::open(&format!("{}?connections=1", database.url()), options.clone()).await.unwrap();
    let other = PostgresStore::open(database.url(), options).await.unwrap();
    for (round, polls) in (0..ROUNDS).flat_map(|round| (1..=POLLS_MAX).map(move |polls| (round, polls))) {
        let cancel = Order { target: Ref::Key(key("none")), action: Action::Cancel };
        leave_after(polls, store.operate(&[cancel])).await;
        check(&store, &other, &format!("order {round} {polls}")).await;
        leave_after(polls, store.begin_transaction()).await;
        check(&store, &other, &format!("transaction {round} {polls}")).await;
    }
}

async fn check(store: &PostgresStore, other: &PostgresStore, id: &str) {
    let accepted = store.accept(&[message(id)]).await.unwrap();
    assert!(matches!(accepted[..], [Accepted::New { .. }]), "{accepted:?}");
    let found = other.get_one(&key(id).into()).await.unwrap();
    assert!(found.is_some(), "others see what was accepted after {id}");
}
