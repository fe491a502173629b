//! Handlers and enqueueing inside a transaction, on PostgreSQL.

mod connections;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::postgres::Tx;
use oncebox::{
    Backoff, Context, ErrorKind, Failure, Message, MessageState, Oncebox, State, Worker,
    store::Recorded,
    worker::{Growth, Jitter, Route},
};
use oncebox::{EnqueueOutcome, store::TransactionalStore};
use sqlx::{Executor, PgPool, Row};

use crate::fixture;
use crate::timed::until;

/// An inbox on the database server's clock, and an application table in the same database.
struct Shop {
    oncebox: Oncebox,
    pool: PgPool,
    table: String,
}

async fn shop() -> Shop {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (store, pool) = fixture::postgres(None).await;
    let table = format!("public.payments{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let create = format!("create table {table} (id text primary key, note text)");
    pool.execute(sqlx::AssertSqlSafe(create)).await.unwrap();
    Shop { oncebox: Oncebox::builder().on_postgres(store).unwrap(), pool, table }
}

impl Shop {
    async fn booked(&self) -> Vec<String> {
        let all = sqlx::AssertSqlSafe(format!("select id from {} order by id", self.table));
        self.pool.fetch_all(all).await.unwrap().iter().map(|row| row.get(0)).collect()
    }

    async fn enqueue(&self, id: &str) {
        self.oncebox.inbox().enqueue(Message::new("payment", "shop", id).text(id)).await.unwrap();
    }

    async fn state(&self, id: &str) -> Option<MessageState> {
        let key = oncebox::message::Key::inbox("shop", id).unwrap();
        let found = self.oncebox.operator("test").show(key).await.unwrap();
        found.map(|message| message.state)
    }

    fn book(&self, id: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(format!("insert into {} values ('{id}')", self.table))
    }
}

/// Books every payment, and then fails for some of them.
async fn book(mut tx: Tx, State(table): State<Arc<str>>, context: Context) -> Result<(), Failure> {
    let insert = format!("insert into {table} values ('{}')", context.id());
    (**tx).execute(sqlx::AssertSqlSafe(insert)).await?;
    match (context.id(), context.attempts()) {
        ("2", 0) => Err(Failure::retry("not yet")),
        ("3", _) => Err(Failure::dead("never")),
        _ => Ok(()),
    }
}

/// The writes of a handler commit together with the acknowledgement; the writes of a failed handler are rolled back.
/// Holds: RULE-01.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_handlers_writes_commit_with_the_acknowledgement() {
    let shop = shop().await;
    for id in ["1", "2", "3"] {
        shop.enqueue(id).await;
    }
    let soon = Backoff::new(Duration::from_millis(1), Duration::from_millis(1), Growth::Fixed, Jitter::None)
        .unwrap();
    let worker = Worker::new(&shop.oncebox).with_state(Arc::from(shop.table.as_str())).backoff(soon);
    let worker = worker.on("payment", book).start().unwrap();
    until("the second message is handled", async || shop.state("2").await == Some(MessageState::Done)).await;
    worker.drain().await.unwrap();
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.retrying, stopped.dead), (2, 1, 1), "{stopped:?}");
    assert_eq!(shop.booked().await, ["1", "2"]);
    let states = [shop.state("1").await, shop.state("2").await, shop.state("3").await];
    assert_eq!(states, [MessageState::Done, MessageState::Done, MessageState::Dead].map(Some));
}

/// Holds: RULE-01, RULE-05.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn writes_of_a_handler_that_lost_its_lease_are_rolled_back() {
    let shop = shop().await;
    shop.enqueue("1").await;
    let (operator, table) = (shop.oncebox.operator("test"), shop.table.clone());
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let book = move |mut tx: Tx, context: Context| {
        let (operator, table, runs) = (operator.clone(), table.clone(), counted.clone());
        async move {
            let insert = format!("insert into {table} values ('{}')", context.id());
            (**tx).execute(sqlx::AssertSqlSafe(insert)).await?;
            if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                // An operator cancels the message during the first run.
                operator.cancel(context.uid()).await?;
            }
            Ok::<(), Failure>(())
        }
    };
    let worker = Worker::new(&shop.oncebox).on("payment", book);
    let stopped = worker.run_until_idle().await.unwrap();
    assert_eq!((runs.load(Ordering::SeqCst), stopped.handled), (1, 0), "{stopped:?}");
    assert_eq!(shop.booked().await, Vec::<String>::new());
    assert_eq!(shop.state("1").await, Some(MessageState::Dead));
}

/// A message that is enqueued together with an application row is stored with it or not at all; a key is recorded once.
/// Holds: CMD-17, RULE-01.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_accepted_with_the_applications_own_row_or_not_at_all() {
    let shop = shop().await;
    let inbox = shop.oncebox.inbox();
    for commits in [false, true] {
        let mut tx = shop.pool.begin().await.unwrap();
        tx.execute(shop.book("1")).await.unwrap();
        let (_, wake) =
            inbox.enqueue_in(&mut tx, Message::new("payment", "shop", "1").text("1")).await.unwrap();
        if commits {
            tx.commit().await.unwrap();
            wake.fire();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(
            (shop.booked().await.len(), shop.state("1").await.is_some()),
            (usize::from(commits), commits)
        );
    }
    for expected in [true, false] {
        let mut tx = shop.pool.begin().await.unwrap();
        let recorded = inbox.record_in(&mut tx, "bank", "77").await.unwrap();
        assert_eq!(matches!(recorded, Recorded::First(_)), expected);
        tx.commit().await.unwrap();
    }
}

async fn transactional(_tx: Tx) {}

/// A worker with a transactional handler does not start on a store without transactions.
#[tokio::test(crate = "crate::timed")]
async fn a_store_without_transactions_rejects_transactional_calls() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let refused = Worker::new(&oncebox).on("payment", transactional).start().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("the handler of topic `payment` needs a transaction"), "{refused}");
    let refused = Worker::new(&oncebox).route(Route::new("other", transactional)).start().err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    let refused = oncebox.inbox().record_in(&mut 7, "bank", "1").await.unwrap_err();
    assert!(refused.to_string().contains("does not support transactions"), "{refused}");
    let shop = shop().await;
    let refused = shop.oncebox.inbox().record_in(&mut 7, "bank", "1").await.unwrap_err();
    assert!(refused.to_string().contains("does not belong to the store"), "{refused}");
}

/// Coalesced calls do not wait for one of them that is blocked by another transaction.
/// Holds: RULE-13.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_call_blocked_by_a_lock_does_not_block_other_calls() {
    let (store, _) = fixture::postgres(None).await;
    let oncebox = Oncebox::builder().on_postgres(store.clone()).unwrap();
    let message = |id: &str| Message::new("payment", "shop", id).text(id);
    let own = Oncebox::builder().on_transactional(store.clone()).unwrap();
    let mut slow = store.begin_transaction().await.unwrap();
    own.inbox().enqueue_in(&mut slow, message("held")).await.unwrap();

    let held: Vec<_> = (0..3)
        .map(|_| {
            let inbox = oncebox.inbox();
            tokio::spawn(
                async move { inbox.enqueue(Message::new("payment", "shop", "held").text("held")).await },
            )
        })
        .collect();
    let others: Vec<_> = (0..64)
        .map(|id| {
            let (inbox, message) = (oncebox.inbox(), message(&format!("other-{id}")));
            tokio::spawn(async move { inbox.enqueue(message).await })
        })
        .collect();
    for other in others {
        assert_eq!(other.await.unwrap().unwrap().outcome, EnqueueOutcome::Accepted);
    }
    // Later calls succeed too while the transaction is open.
    assert_eq!(oncebox.inbox().enqueue(message("later")).await.unwrap().outcome, EnqueueOutcome::Accepted);
    assert!(held.iter().all(|held| !held.is_finished()), "calls for the locked key wait");
    store.commit(slow).await.unwrap();
    for held in held {
        assert_eq!(held.await.unwrap().unwrap().outcome, EnqueueOutcome::Duplicate);
    }
}
