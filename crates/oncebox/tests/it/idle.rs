//! The load that a process puts on a shared store, mainly while it is idle.

mod counting_store;

use std::sync::Arc;
use std::time::Duration;

use oncebox::mailbox::{MailboxSettings, OutgoingMessage, Receive, Settle};
use oncebox::postgres::{PostgresOptions, PostgresStore};
use oncebox::{Message, Oncebox, Worker, store::Store};
use oncebox_core::{Budget, Namespace, ReadyTopics};
use oncebox_testkit::servers::{Postgres, psql};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::fixture::{Paused, RuntimeClock};
use crate::timed::within;
use counting_store::CountingStore;

/// Statements, including `begin` and `commit`, of an idle claim, of reading the paused topics, of maintenance without
/// work, and of a query for ready topics.
const CLAIM: usize = 1;
const PAUSES: usize = 1;
const MAINTENANCE: usize = 1;
const TOPICS: usize = 5;
/// The default minimum poll interval of a worker.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const HOUR: Duration = Duration::from_secs(3_600);

/// The statements run in a database since the last call.
fn statements(url: &str) -> Vec<(usize, String)> {
    let query = "select calls, translate(query, E'\\n', ' ') from pg_stat_statements \
                where dbid = (select oid from pg_database where datname = current_database()) \
                and query not like '%pg_stat_statements%'";
    let output = psql(url, query).unwrap();
    psql(url, "select pg_stat_statements_reset()").unwrap();
    let lines = output.lines().filter_map(|line| line.split_once('|'));
    lines.map(|(calls, query)| (calls.parse().unwrap(), query.to_owned())).collect()
}

fn sum(statements: &[(usize, String)]) -> usize {
    statements.iter().map(|(calls, _)| calls).sum()
}

/// Counts statements per poll, because a measured time would depend on the speed of the machine.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn idle_calls_cost_few_postgres_statements() {
    let server = Postgres::with(&[("shared_preload_libraries", "pg_stat_statements")]).unwrap();
    let url = server.url();
    let mut options = PostgresOptions::default();
    options.ensure = true;
    let store = PostgresStore::open(&url, options).await.unwrap();
    let store = CountingStore::new(Arc::new(store), true);
    let oncebox = Oncebox::builder().on(store.clone()).unwrap();
    let inbox = oncebox.inbox();
    inbox.enqueue(Message::new("t", "test", "1")).await.unwrap();
    let handled = Worker::new(&oncebox).on("t", async || {}).run_until_idle().await.unwrap().handled;
    assert_eq!(handled, 1);
    psql(&url, "create extension pg_stat_statements").unwrap();
    statements(&url);

    let (before, reads_before) = (store.calls("work"), store.calls("records"));
    let worker = Worker::new(&oncebox).on("t", async || {}).without_maintenance();
    let millisecond = Duration::from_millis(1);
    let worker = worker.poll_interval(millisecond, millisecond).start().unwrap();
    within("a hundred polls", async {
        while store.calls("work") - before < 100 {
            sleep(millisecond).await;
        }
    })
    .await;
    worker.stop().await.unwrap();
    let (polls, reads) = (store.calls("work") - before, store.calls("records") - reads_before);
    let cost = statements(&url);
    assert!(
        sum(&cost) <= polls * CLAIM + reads * PAUSES,
        "{polls} polls, {reads} reads of pauses: {cost:#?}"
    );

    for _ in 0..10 {
        store.maintain(Budget::new(1_000)).await.unwrap();
    }
    let cost = statements(&url);
    assert!(sum(&cost) <= 10 * MAINTENANCE, "{cost:#?}");
    for _ in 0..10 {
        store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.unwrap();
    }
    let cost = statements(&url);
    assert!(sum(&cost) <= 10 * TOPICS, "{cost:#?}");
    oncebox.close().await.unwrap();
}

/// An in-memory inbox whose store claims to be shared with other processes, or not.
fn inbox(shared: bool) -> (Arc<CountingStore>, Oncebox) {
    let store = CountingStore::new(Paused::new().store, shared);
    let oncebox = Oncebox::builder().clock(Arc::new(RuntimeClock::new())).on(store.clone()).unwrap();
    (store, oncebox)
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_idle_process_runs_at_most_one_statement_per_poll_interval_on_a_shared_store() {
    let (store, oncebox) = inbox(true);
    let worker = Worker::new(&oncebox).on("t", async || {}).start().unwrap();
    sleep(HOUR).await;
    worker.stop().await.unwrap();
    let [claims, reads, runs, topics] =
        ["work", "records", "maintain", "ready_topics"].map(|name| store.calls(name));
    let statements = claims * CLAIM + reads * PAUSES + runs * MAINTENANCE + topics * TOPICS;
    let intervals = usize::try_from(HOUR.as_millis() / POLL_INTERVAL.as_millis()).unwrap();
    println!(
        "{claims} claims, {reads} reads of pauses, {runs} maintenance runs, {topics} topic queries: {statements} statements"
    );
    assert!(statements <= intervals, "{statements} statements in {intervals} poll intervals");
    assert!(runs >= 150, "maintenance still runs: {runs}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_waiting_receiver_polls_the_store_once_per_poll_interval() {
    let (store, oncebox) = inbox(true);
    let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
    let received = mailbox.receive(Receive::new("t").wait(HOUR)).await.unwrap().envelopes;
    assert_eq!(received.len(), 0);
    let intervals = usize::try_from(HOUR.as_millis() / POLL_INTERVAL.as_millis()).unwrap();
    let (polls, counts) = (store.calls("work"), store.calls("counts"));
    assert!((intervals / 2..=intervals + 3).contains(&polls), "{polls} polls in {intervals} poll intervals");
    assert!(store.calls("records") <= polls, "pauses are read at most once per poll");
    assert!(counts <= 2, "{counts} counts");
}

#[tokio::test(crate = "crate::timed")]
async fn a_work_call_makes_one_store_call() {
    let (store, oncebox) = inbox(true);
    let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
    for key in ["a", "b"] {
        mailbox.send(OutgoingMessage::new("t", key)).await.unwrap();
    }
    let request = || Receive::new("t").messages(1);
    let received = mailbox.receive(request()).await.unwrap().envelopes;
    let before = store.all_calls();
    let (_, received) = mailbox.work(vec![Settle::ack(received[0].receipt)], request()).await.unwrap();
    assert_eq!(store.all_calls() - before, 1, "an acknowledgement and the next message");
    mailbox.extend(received.envelopes[0].receipt, Duration::from_secs(60)).await.unwrap();
    assert_eq!(store.all_calls() - before, 2, "an extension");
    mailbox.ack(received.envelopes[0].receipt).await.unwrap();
    assert_eq!(store.all_calls() - before, 3, "an acknowledgement");
}

/// Maintenance of a store that is not shared is cheap, so it runs often and due messages are found at once.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_idle_process_maintains_its_own_store_every_second() {
    let (store, oncebox) = inbox(false);
    let worker = Worker::new(&oncebox).on("t", async || {}).start().unwrap();
    sleep(HOUR).await;
    worker.stop().await.unwrap();
    assert!(store.calls("maintain") >= 3_600);
}

/// Even after a long idle time, maintenance handles changes by this process within a second.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_message_accepted_by_an_idle_process_is_handled_when_it_is_due() {
    let (_, oncebox) = inbox(true);
    let (done, mut handled) = mpsc::unbounded_channel();
    let worker = Worker::new(&oncebox).on("t", move || {
        let sent = done.send(Instant::now());
        async move { sent.unwrap() }
    });
    // With this poll interval, only a wake-up makes the worker claim.
    let worker = worker.poll_interval(HOUR, HOUR).start().unwrap();
    sleep(Duration::from_secs(61)).await;
    let wait = Duration::from_secs(3);
    let due = Instant::now() + wait;
    oncebox.inbox().enqueue(Message::new("t", "test", "1").due_in(wait)).await.unwrap();
    let late = handled.recv().await.unwrap().duration_since(due);
    assert!(late < Duration::from_millis(1_100), "{late:?} late");
    worker.stop().await.unwrap();
}
