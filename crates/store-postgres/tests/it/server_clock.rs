//! Timestamps come from the server's clock: the test reads it by SQL before and after each call, and what the call
//! wrote is in between.

use std::str::FromStr;
use std::time::Duration;

use oncebox_core::{
    Action, Batch, Begin, Begun, Claim, DeadReason, Delivery, Extended, Hold, Keep, Key, MessageRef,
    Namespace, NewMessage, Observation, Order, Owner, Payload, Policy, Settlement, Snapshot, Span, Store,
    StoreExt, Timestamp, Topic, Verdict,
};
use oncebox_store_postgres::PostgresStore;
use oncebox_testkit::TestResult;
use oncebox_testkit::servers::Postgres;
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use crate::{fresh, pool};

const LEASE: Duration = Duration::from_secs(60);

fn key(id: &str) -> Key {
    Key::inbox("shop", id).unwrap()
}

fn message(id: &str) -> NewMessage {
    NewMessage::new(key(id), Topic::new("orders").unwrap(), Payload::new("{}").unwrap())
}

fn span(duration: Duration) -> Span {
    Span::new("test duration", duration).unwrap()
}

/// A store, and the clock of its server.
struct Clocked {
    store: PostgresStore,
    pool: PgPool,
}

impl Clocked {
    async fn now(&self) -> Result<Timestamp, sqlx::Error> {
        let sql = "select floor(extract(epoch from clock_timestamp()) * 1000)::bigint";
        let millis: i64 = sqlx::query_scalar(sql).fetch_one(&self.pool).await?;
        Ok(Timestamp::from_millis(millis.unsigned_abs()))
    }

    /// Makes a call, and returns its start and end on the server's clock.
    async fn timed<T>(&self, call: impl Future<Output = Result<T, oncebox_core::Error>>) -> Timed<T> {
        let from = self.now().await.unwrap();
        let answer = call.await.unwrap();
        Timed { answer, from, to: self.now().await.unwrap() }
    }

    async fn read(&self, id: &str) -> Snapshot {
        self.store.get_one(&MessageRef::Key(key(id))).await.unwrap().expect("the key is known")
    }

    async fn settle(&self, delivery: &Delivery, verdict: Verdict) -> Timed<Vec<oncebox_core::Settled>> {
        let (uid, owner, fence) = (delivery.uid, delivery.lease.owner, delivery.lease.fence);
        self.timed(self.store.settle(&[Settlement { uid, owner, fence, verdict }])).await
    }

    /// Accepts messages, once and again, and observes them.
    async fn accept_and_observe(&self) {
        let first = self.timed(self.store.accept(&["ack", "fail", "abandon", "late"].map(message))).await;
        for id in ["ack", "fail", "abandon", "late"] {
            let stored = self.read(id).await;
            first.spans(stored.accepted_at, "first seen");
            assert_eq!(stored.last_seen_at, stored.accepted_at);
        }
        // A single message uses another statement, and known messages take the slow path.
        let single = self.timed(self.store.accept_one(&message("single"))).await;
        let before = self.read("single").await;
        single.spans(before.accepted_at, "first seen");
        let again = self.timed(self.store.accept_one(&message("single"))).await;
        let stored = self.read("single").await;
        assert_eq!(stored.accepted_at, before.accepted_at);
        again.spans(stored.last_seen_at, "last seen");
        let observation = Observation {
            key: key("observed"),
            hash: None,
            hold: Hold { window: LEASE, keep: Keep::Window },
        };
        let observed = self.timed(self.store.observe(std::slice::from_ref(&observation))).await;
        observed.spans(self.read("observed").await.accepted_at, "first observed");
        let again = self.timed(self.store.observe(&[observation])).await;
        again.spans(self.read("observed").await.last_seen_at, "last observed");
    }

    /// Leases, extends and settles.
    async fn work(&self) -> TestResult {
        let claim = Claim::new(Namespace::Inbox, Owner::new(7)?, span(LEASE), Batch::new(10)?);
        let claimed = self.timed(self.store.claim(&claim)).await;
        assert_eq!(claimed.answer.len(), 5);
        for delivery in &claimed.answer {
            claimed.spans_after(delivery.lease.until, LEASE, "the end of a lease");
        }
        let [ack, fail, abandon, late, _] = &claimed.answer[..] else {
            return Err("expected five deliveries".into());
        };
        let extended = self.timed(self.store.extend(&[late.extend(span(LEASE * 5))])).await;
        let [Extended::Until(until)] = extended.answer[..] else { return Err("a lease was lost".into()) };
        extended.spans_after(until, LEASE * 5, "the end of a longer lease");
        let done = self.settle(ack, Verdict::Ack).await;
        done.spans(self.read("ack").await.finished_at.ok_or("not finished")?, "finished");
        let dead = self.settle(fail, Verdict::Fail { reason: DeadReason::Failed, error: None }).await;
        dead.spans(self.read("fail").await.finished_at.ok_or("not dead")?, "dead");
        let later = self.settle(abandon, Verdict::Abandon { delay: span(LEASE), error: None }).await;
        later.spans_after(self.read("abandon").await.retry_at.ok_or("not retried")?, LEASE, "the retry");
        Ok(())
    }

    /// Leases a bare key, marks it as processed, and accepts a message that is due now.
    async fn keys_and_due_times(&self) -> TestResult {
        let bare = Key::new(Namespace::Ledger, key("bare").source, key("bare").id);
        let hold = Policy::LEDGER.hold;
        let begin = Begin { key: bare.clone(), owner: Owner::new(7)?, lease: span(LEASE), hold };
        let timed = self.timed(self.store.begin(&[begin])).await;
        let [Begun::Acquired { lease, .. }] = &timed.answer[..] else { return Err("not begun".into()) };
        timed.spans_after(lease.until, LEASE, "the end of a key's lease");
        let mark = Order { target: MessageRef::Key(bare.clone()), action: Action::MarkProcessed { hold } };
        let marked = self.timed(self.store.operate(&[mark])).await;
        let stored = self.store.get_one(&MessageRef::Key(bare)).await?.ok_or("the key is known")?;
        marked.spans(stored.finished_at.ok_or("not processed")?, "processed");
        // The sender's due time is compared with the same clock.
        for (id, due, claimed) in [("due", Duration::ZERO, 1), ("not due", LEASE * 60, 0)] {
            let mut message = message(id);
            message.content.due = Some(self.now().await?.after(due));
            self.store.accept_one(&message).await?;
            let claim = Claim::new(Namespace::Inbox, Owner::new(7)?, span(LEASE), Batch::new(10)?);
            assert_eq!(self.store.claim(&claim).await?.len(), claimed, "{id}");
        }
        Ok(())
    }

    async fn run_all(&self) -> TestResult {
        self.accept_and_observe().await;
        self.work().await?;
        self.keys_and_due_times().await
    }
}

/// The answer of a call, and when it was made.
struct Timed<T> {
    answer: T,
    from: Timestamp,
    to: Timestamp,
}

impl<T> Timed<T> {
    fn spans(&self, at: Timestamp, what: &str) {
        self.spans_after(at, Duration::ZERO, what);
    }

    fn spans_after(&self, at: Timestamp, duration: Duration, what: &str) {
        let (from, to) = (self.from.after(duration), self.to.after(duration));
        assert!(
            from <= at && at <= to,
            "{what}: {at:?} is not between {from:?} and {to:?} of the server's clock"
        );
    }
}

/// Holds: IBX-025, IBX-026, RULE-09.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_come_from_the_servers_clock() -> TestResult {
    let pool = pool().await;
    let options = fresh(&pool).await;
    Clocked { store: PostgresStore::new(pool.clone(), &options), pool }.run_all().await
}

/// The same with a server clock that is a day ahead of this machine's, or a day behind: on these connections, a
/// function of the test provides the time, so a timestamp made by the process would be noticed.
/// Holds: IBX-025, IBX-026, RULE-09.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timestamps_come_from_the_servers_clock_even_if_it_is_a_day_off() -> TestResult {
    for (name, days) in [("clock_ahead", 1), ("clock_behind", -1)] {
        let pool = pool().await;
        let options = fresh(&pool).await;
        let moved = format!(
            "create schema {name};
             create function {name}.clock_timestamp() returns timestamptz language sql volatile
               as 'select pg_catalog.clock_timestamp() + interval ''{days} day'''"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(moved)).execute(&pool).await?;
        let server = PgConnectOptions::from_str(&Postgres::shared()?.url())?;
        let server = server.options([("search_path", format!("{name},pg_catalog"))]);
        let pool = PgPoolOptions::new().max_connections(4).connect_with(server).await?;
        let clocked = Clocked { store: PostgresStore::new(pool.clone(), &options), pool };
        let apart = clocked.now().await?.as_millis().abs_diff(oncebox_system::wall().as_millis());
        assert!(apart > 12 * 60 * 60 * 1_000, "the clocks are {apart} ms apart");
        clocked.run_all().await?;
    }
    Ok(())
}
