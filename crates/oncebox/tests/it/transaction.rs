//! Handlers and receivers inside a transaction, on PostgreSQL.

mod connections;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use oncebox::postgres::Tx;
use oncebox::{
    Backoff, Context, Failure, Growth, Jitter, Kind, Message, MessageState, Oncebox, Recorded, Route, State,
    Worker,
};
use oncebox::{Outcome, TransactionalStore};
use sqlx::{Executor, PgPool, Row};

use crate::fixture;
use crate::timed::until;

/// An inbox on the server's own clock, with a table of the application's beside it.
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
        let key = oncebox::Key::inbox("shop", id).unwrap();
        let found = self.oncebox.operator("test").show(key).await.unwrap();
        found.map(|message| message.state)
    }

    fn book(&self, id: &str) -> sqlx::AssertSqlSafe<String> {
        sqlx::AssertSqlSafe(format!("insert into {} values ('{id}')", self.table))
    }
}

/// Books every payment, and fails with some of them after that.
async fn book(mut tx: Tx, State(table): State<Arc<str>>, context: Context) -> Result<(), Failure> {
    let insert = format!("insert into {table} values ('{}')", context.id());
    (**tx).execute(sqlx::AssertSqlSafe(insert)).await?;
    match (context.id(), context.attempts()) {
        ("2", 0) => Err(Failure::retry("not yet")),
        ("3", _) => Err(Failure::dead("never")),
        _ => Ok(()),
    }
}

/// What a handler wrote and the acknowledgement commit together; what a failed one wrote is gone.
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
    until("the second is handled again", async || shop.state("2").await == Some(MessageState::Done)).await;
    worker.drain().await.unwrap();
    let stopped = worker.stop().await.unwrap();
    assert_eq!((stopped.handled, stopped.retrying, stopped.dead), (2, 1, 1), "{stopped:?}");
    assert_eq!(shop.booked().await, ["1", "2"]);
    let states = [shop.state("1").await, shop.state("2").await, shop.state("3").await];
    assert_eq!(states, [MessageState::Done, MessageState::Done, MessageState::Dead].map(Some));
}

/// A handler whose lease was lost has written nothing.
/// Holds: RULE-01, RULE-05.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_lost_its_lease_has_written_nothing() {
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
                // Somebody takes the message away from the first run.
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

/// A message taken in with the application's own row is there with it or not at all; a key is recorded once.
/// Holds: CMD-17, RULE-01.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_taken_in_with_the_applications_own_row() {
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

async fn ask(_tx: Tx) {}

/// Where there are no transactions, that is said before anything runs.
#[tokio::test(crate = "crate::timed")]
async fn a_store_without_transactions_says_so() {
    let oncebox = Oncebox::open("memory:").await.unwrap();
    let refused = Worker::new(&oncebox).on("payment", ask).start().err().unwrap();
    assert_eq!(refused.kind(), Kind::Unsupported);
    assert!(
        refused.to_string().contains("the handler of topic `payment` asks for a transaction"),
        "{refused}"
    );
    let refused = Worker::new(&oncebox).route(Route::new("other", ask)).start().err().unwrap();
    assert_eq!(refused.kind(), Kind::Unsupported);
    let refused = oncebox.inbox().record_in(&mut 7, "bank", "1").await.unwrap_err();
    assert!(refused.to_string().contains("takes part in no transactions"), "{refused}");
    let shop = shop().await;
    let refused = shop.oncebox.inbox().record_in(&mut 7, "bank", "1").await.unwrap_err();
    assert!(refused.to_string().contains("none of the store's"), "{refused}");
}

/// Calls that were merged do not wait for what somebody else holds up in one of them.
/// Holds: RULE-13.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn a_held_up_call_holds_up_no_other() {
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
        assert_eq!(other.await.unwrap().unwrap().outcome, Outcome::Accepted);
    }
    // Those who came later go on, too, while the transaction is still open.
    assert_eq!(oncebox.inbox().enqueue(message("later")).await.unwrap().outcome, Outcome::Accepted);
    assert!(held.iter().all(|held| !held.is_finished()), "whoever needs its key waits for it");
    store.commit(slow).await.unwrap();
    for held in held {
        assert_eq!(held.await.unwrap().unwrap().outcome, Outcome::Duplicate);
    }
}
