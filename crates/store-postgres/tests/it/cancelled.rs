//! Calls that are cancelled before the answer.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use oncebox_core::{
    Accepted, Action, Key, MessageRef, NewMessage, Order, Payload, RecordId, RecordKind, RecordOp,
    RecordValue, Store, StoreExt, Topic, TransactionalStore, WhenFull, WriteCondition,
};
use oncebox_store_postgres::{PostgresOptions, PostgresStore};
use oncebox_testkit::servers::Postgres;

/// More polls than any of these calls takes on an existing connection.
const POLLS_MAX: u32 = 12;
/// Some of several attempts cancel right after `begin` was sent.
const ROUNDS: u32 = 8;

fn key(id: &str) -> Key {
    Key::inbox("shop", id).unwrap()
}

fn message(id: &str) -> NewMessage {
    NewMessage::new(key(id), Topic::new("payments").unwrap(), Payload::new("{}").unwrap())
}

fn put() -> RecordOp {
    const KIND: RecordKind = RecordKind::new("state", 10, WhenFull::Refuse);
    let (id, value) = (RecordId::new("a").unwrap(), RecordValue::default());
    RecordOp::Put { kind: KIND, id, value, condition: WriteCondition::Always, keep: None }
}

/// Polls a call this many times, whenever it is woken, and then drops it.
async fn cancel_after<T>(polls: u32, call: impl Future<Output = T>) {
    let (mut call, mut left) = (pin!(call), polls);
    poll_fn(|context| {
        left = left.saturating_sub(1);
        if call.as_mut().poll(context).is_ready() || left == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// A connection on which a cancelled call has begun a transaction is not passed to the next call, whose changes would
/// never be committed.
/// Holds: RULE-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_after_a_cancelled_call_are_committed() {
    let database = Postgres::shared().unwrap().lend_database().unwrap();
    let mut options = PostgresOptions::default();
    options.ensure = true;
    // One connection that all calls share.
    let store =
        PostgresStore::open(&format!("{}?connections=1", database.url()), options.clone()).await.unwrap();
    let other = PostgresStore::open(database.url(), options).await.unwrap();
    for (round, polls) in (0..ROUNDS).flat_map(|round| (1..=POLLS_MAX).map(move |polls| (round, polls))) {
        let cancel = Order { target: MessageRef::Key(key("none")), action: Action::Cancel };
        cancel_after(polls, store.operate(&[cancel])).await;
        check(&store, &other, &format!("order {round} {polls}")).await;
        cancel_after(polls, store.begin_transaction()).await;
        check(&store, &other, &format!("transaction {round} {polls}")).await;
        cancel_after(polls, store.record(put())).await;
        check(&store, &other, &format!("record {round} {polls}")).await;
    }
}

async fn check(store: &PostgresStore, other: &PostgresStore, id: &str) {
    let accepted = store.accept(&[message(id)]).await.unwrap();
    assert!(matches!(accepted[..], [Accepted::New { .. }]), "{accepted:?}");
    let found = other.get_one(&key(id).into()).await.unwrap();
    assert!(found.is_some(), "another store sees the message accepted after {id}");
}
