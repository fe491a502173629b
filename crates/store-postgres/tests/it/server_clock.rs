//! Times are those of the server's clock: it is read by SQL before and after each call, and what the call wrote lies in between.

use std::str::FromStr;
use std::time::Duration;

use oncebox_core::{
    Action, Batch, Begin, Begun, Claim, DeadReason, Delivery, Extended, Hold, Keep, Key, Namespace,
    NewMessage, Order, Owner, Payload, Policy, Ref, Settlement, Sighting, Snapshot, Span, Store, StoreExt,
    Timestamp, Topic, Verdict,
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

    /// Makes a call, and answers between which moments of the server's it was made.
    async fn timed<T>(&self, call: impl Future<Output = Result<T, oncebox_core::Error>>) -> Timed<T> {
        let from = self.now().await.unwrap();
        let answer = call.await.unwrap();
        Timed { answer, from, to: self.now().await.unwrap() }
    }

    async fn read(&self, id: &str) -> Snapshot {
        self.store.get_one(&Ref::Key(key(id))).await.unwrap().expect("it is known")
    }

    async fn settle(&self, delivery: &Delivery, verdict: Verdict) -> Timed<Vec<oncebox_core::Settled>> {
        let (uid, owner, fence) = (delivery.uid, delivery.lease.owner, delivery.lease.fence);
        self.timed(self.store.settle(&[Settlement { uid, owner, fence, verdict }])).await
    }

    /// Takes messages in, once and again, and sights them.
    async fn intake(&self) {
        let first = self.timed(self.store.accept(&["ack", "fail", "abandon", "late"].map(message))).await;
        for id in ["ack", "fail", "abandon", "late"] {
            let stored = self.read(id).await;
            first.spans(stored.accepted_at, "first seen");
            assert_eq!(stored.last_seen_at, stored.accepted_at);
        }
        // One by one it is another statement, and what is known takes the slow path.
        let single = self.timed(self.store.accept_one(&message("single"))).await;
        let before = self.read("single").await;
        single.spans(before.accepted_at, "first seen");
        let again = self.timed(self.store.accept_one(&message("single"))).await;
        let stored = self.read("single").await;
        assert_eq!(stored.accepted_at, before.accepted_at);
        again.spans(stored.last_seen_at, "last seen");
        let sighting =
            Sighting { key: key("sighted"), hash: None, hold: Hold { window: LEASE, keep: Keep::Window } };
        let sighted = self.timed(self.store.observe(std::slice::from_ref(&sighting))).await;
        sighted.spans(self.read("sighted").await.accepted_at, "first sighted");
        let again = self.timed(self.store.observe(&[sighting])).await;
        again.spans(self.read("sighted").await.last_seen_at, "last sighted");
    }

    /// Leases, extends and settles.
    async fn work(&self) -> TestResult {
        let claim = Claim::new(Namespace::Inbox, Owner::new(7)?, span(LEASE), Batch::new(10)?);
        let claimed = self.timed(self.store.claim(&claim)).await;
        assert_eq!(claimed.answer.len(), 5);
        for delivery in &claimed.answer {
            claimed.spans_after(delivery.lease.until, LEASE, "the end of a lease");
        }
        let [ack, fail, abandon, late, _] = &claimed.answer[..] else { return Err("five".into()) };
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

    /// Leases a bare key, marks one, and takes in what is due now.
    async fn others(&self) -> TestResult {
        let bare = Key::new(Namespace::Ledger, key("bare").source, key("bare").id);
        let hold = Policy::LEDGER.hold;
        let begin = Begin { key: bare.clone(), owner: Owner::new(7)?, lease: span(LEASE), hold };
        let timed = self.timed(self.store.begin(&[begin])).await;
        let [Begun::Acquired { lease, .. }] = &timed.answer[..] else { return Err("not begun".into()) };
        timed.spans_after(lease.until, LEASE, "the end of a key's lease");
        let mark = Order { target: Ref::Key(bare.clone()), action: Action::MarkProcessed { hold } };
        let marked = self.timed(self.store.operate(&[mark])).await;
        let stored = self.store.get_one(&Ref::Key(bare)).await?.ok_or("it is known")?;
        marked.spans(stored.finished_at.ok_or("not processed")?, "processed");
        // The sender's moment is compared with the same clock.
        for (id, due, claimed) in [("due", Duration::ZERO, 1), ("not due", LEASE * 60, 0)] {
            let mut message = message(id);
            message.content.due = Some(self.now().await?.after(due));
            self.store.accept_one(&message).await?;
            let claim = Claim::new(Namespace::Inbox, Owner::new(7)?, span(LEASE), Batch::new(10)?);
            assert_eq!(self.store.claim(&claim).await?.len(), claimed, "{id}");
        }
        Ok(())
    }

    async fn live(&self) -> TestResult {
        self.intake().await;
        self.work().await?;
        self.others().await
    }
}

/// What a call answered, and when it was made.
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
async fn times_are_those_of_the_servers_clock() -> TestResult {
    let pool = pool().await;
    let options = fresh(&pool).await;
    Clocked { store: PostgresStore::new(pool.clone(), &options), pool }.live().await
}

/// The same where the server's clock is a day ahead of this machine's, or a day behind it: what is asked for the time on these connections is a
/// function of the test's, so a time that the process made would show.
/// Holds: IBX-025, IBX-026, RULE-09.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn times_are_the_servers_also_where_its_clock_differs_by_a_day() -> TestResult {
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
        clocked.live().await?;
    }
    Ok(())
}
