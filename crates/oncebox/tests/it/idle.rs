//! What a process costs the store that it shares, above all while there is nothing to do.

mod watched;

use std::sync::Arc;
use std::time::Duration;

use oncebox::mailbox::{MailboxSettings, Parcel, Receive, Settle};
use oncebox::postgres::{Options, PostgresStore};
use oncebox::{Message, Oncebox, Store, Worker};
use oncebox_core::{Budget, Namespace, ReadyTopics};
use oncebox_testkit::servers::{Postgres, psql};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::fixture::{Paused, RuntimeClock};
use crate::timed::within;
use watched::Watched;

/// Statements that an idle claim costs, an upkeep without anything to do, and a look for topics that nobody handles. Begins
/// and commits count.
const CLAIM: usize = 1;
const UPKEEP: usize = 1;
const TOPICS: usize = 5;
/// The shortest time between two polls of a worker that is not told otherwise.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const HOUR: Duration = Duration::from_secs(3_600);

/// Statements in a database since they were last counted.
fn statements(url: &str) -> Vec<(usize, String)> {
    let told = "select calls, translate(query, E'\\n', ' ') from pg_stat_statements \
                where dbid = (select oid from pg_database where datname = current_database()) \
                and query not like '%pg_stat_statements%'";
    let told = psql(url, told).unwrap();
    psql(url, "select pg_stat_statements_reset()").unwrap();
    let lines = told.lines().filter_map(|line| line.split_once('|'));
    lines.map(|(calls, query)| (calls.parse().unwrap(), query.to_owned())).collect()
}

fn sum(statements: &[(usize, String)]) -> usize {
    statements.iter().map(|(calls, _)| calls).sum()
}

/// Polls are counted, for a clock would say how fast the machine is.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn what_idle_calls_cost_postgres() {
    let server = Postgres::with(&[("shared_preload_libraries", "pg_stat_statements")]).unwrap();
    let url = server.url();
    let mut options = Options::default();
    options.ensure = true;
    let store = PostgresStore::open(&url, options).await.unwrap();
    let watched = Watched::new(Arc::new(store), true);
    let oncebox = Oncebox::builder().on(watched.clone()).unwrap();
    let inbox = oncebox.inbox();
    inbox.enqueue(Message::new("t", "test", "1")).await.unwrap();
    let handled = Worker::new(&oncebox).on("t", async || {}).run_until_idle().await.unwrap().handled;
    assert_eq!(handled, 1);
    psql(&url, "create extension pg_stat_statements").unwrap();
    statements(&url);

    let before = watched.calls("work");
    let worker = Worker::new(&oncebox).on("t", async || {}).without_upkeep();
    let millisecond = Duration::from_millis(1);
    let worker = worker.poll_interval(millisecond, millisecond).start().unwrap();
    within("a hundred polls", async {
        while watched.calls("work") - before < 100 {
            sleep(millisecond).await;
        }
    })
    .await;
    worker.stop().await.unwrap();
    let (polls, cost) = (watched.calls("work") - before, statements(&url));
    assert!(sum(&cost) <= polls * CLAIM, "{polls} polls: {cost:#?}");

    for _ in 0..10 {
        watched.upkeep(Budget::new(1_000)).await.unwrap();
    }
    let cost = statements(&url);
    assert!(sum(&cost) <= 10 * UPKEEP, "{cost:#?}");
    for _ in 0..10 {
        watched.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await.unwrap();
    }
    let cost = statements(&url);
    assert!(sum(&cost) <= 10 * TOPICS, "{cost:#?}");
    oncebox.close().await.unwrap();
}

/// An inbox in memory that believes, or does not, that others have it too.
fn inbox(shared: bool) -> (Arc<Watched>, Oncebox) {
    let watched = Watched::new(Paused::new().store, shared);
    let oncebox = Oncebox::builder().clock(Arc::new(RuntimeClock::new())).on(watched.clone()).unwrap();
    (watched, oncebox)
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_idle_process_asks_a_shared_store_less_than_once_per_poll_interval() {
    let (watched, oncebox) = inbox(true);
    let worker = Worker::new(&oncebox).on("t", async || {}).start().unwrap();
    sleep(HOUR).await;
    worker.stop().await.unwrap();
    let [claims, upkeeps, topics] = ["work", "upkeep", "ready_topics"].map(|name| watched.calls(name));
    let statements = claims * CLAIM + upkeeps * UPKEEP + topics * TOPICS;
    let intervals = usize::try_from(HOUR.as_millis() / POLL_INTERVAL.as_millis()).unwrap();
    println!("{claims} claims, {upkeeps} upkeeps, {topics} looks for topics: {statements} statements");
    assert!(statements <= intervals, "{statements} statements in {intervals} poll intervals");
    assert!(upkeeps >= 150, "it is not forgotten: {upkeeps}");
}

#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_waiting_receiver_asks_the_store_once_per_poll_interval() {
    let (watched, oncebox) = inbox(true);
    let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
    let received = mailbox.receive(Receive::new("t").wait(HOUR)).await.unwrap().envelopes;
    assert_eq!(received.len(), 0);
    let intervals = usize::try_from(HOUR.as_millis() / POLL_INTERVAL.as_millis()).unwrap();
    let (looks, counts) = (watched.calls("work"), watched.calls("counts"));
    assert!((intervals / 2..=intervals + 3).contains(&looks), "{looks} looks in {intervals} poll intervals");
    assert!(counts <= 2, "{counts} counts");
}

#[tokio::test(crate = "crate::timed")]
async fn a_round_of_work_asks_the_store_once() {
    let (watched, oncebox) = inbox(true);
    let mailbox = oncebox.mailbox(MailboxSettings::default()).unwrap();
    for key in ["a", "b"] {
        mailbox.send(Parcel::new("t", key)).await.unwrap();
    }
    let wish = || Receive::new("t").messages(1);
    let received = mailbox.receive(wish()).await.unwrap().envelopes;
    let before = watched.all_calls();
    let (_, received) = mailbox.work(vec![Settle::ack(received[0].receipt)], wish()).await.unwrap();
    assert_eq!(watched.all_calls() - before, 1, "an acknowledgement and the next message");
    mailbox.extend(received.envelopes[0].receipt, Duration::from_secs(60)).await.unwrap();
    assert_eq!(watched.all_calls() - before, 2, "more time");
    mailbox.ack(received.envelopes[0].receipt).await.unwrap();
    assert_eq!(watched.all_calls() - before, 3, "an acknowledgement");
}

/// What upkeep does costs nothing there, and something is due as soon as it is.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn an_idle_process_looks_after_a_store_of_its_own_every_second() {
    let (watched, oncebox) = inbox(false);
    let worker = Worker::new(&oncebox).on("t", async || {}).start().unwrap();
    sleep(HOUR).await;
    worker.stop().await.unwrap();
    assert!(watched.calls("upkeep") >= 3_600);
}

/// However long nothing happened: what this process does is looked after within a second.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn what_an_idle_process_takes_in_is_handled_when_it_is_due() {
    let (_, oncebox) = inbox(true);
    let (done, mut handled) = mpsc::unbounded_channel();
    let worker = Worker::new(&oncebox).on("t", move || {
        let told = done.send(Instant::now());
        async move { told.unwrap() }
    });
    // Only a wake-up makes it look.
    let worker = worker.poll_interval(HOUR, HOUR).start().unwrap();
    sleep(Duration::from_secs(61)).await;
    let wait = Duration::from_secs(3);
    let due = Instant::now() + wait;
    oncebox.inbox().enqueue(Message::new("t", "test", "1").due_in(wait)).await.unwrap();
    let late = handled.recv().await.unwrap().duration_since(due);
    assert!(late < Duration::from_millis(1_100), "{late:?} late");
    worker.stop().await.unwrap();
}
