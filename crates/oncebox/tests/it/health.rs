//! Health, by the runtime's paused time.

use std::time::Duration;

use oncebox::{Level, Message, Oncebox, Worker};
use oncebox_testkit::faulty::{Fault, Operation};
use oncebox_testkit::servers::Postgres;
use tokio::time::sleep;

use super::fixture::{Directory, Paused};

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_loop_is_unhealthy_while_its_calls_fail_and_healthy_again_after() {
    let inbox = Paused::new();
    let worker = Worker::new(&inbox.oncebox).on("t", async || Err::<(), _>("handlers do not matter"));
    let worker = worker.poll_interval(Duration::from_secs(1), Duration::from_secs(1)).without_upkeep();
    assert!(inbox.oncebox.health().await.is_healthy(), "before the first pass");
    let worker = worker.start().unwrap();
    inbox.enqueue("t", "1").await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(inbox.oncebox.health().await.level(), Level::Healthy);
    for _ in 0..10 {
        inbox.faults.next_of(Operation::Work, Fault::FailBefore);
    }
    sleep(Duration::from_secs(3)).await;
    let sick = inbox.oncebox.health().await;
    assert_eq!((sick.level(), sick.findings[0].subject.as_str()), (Level::Unhealthy, "worker"));
    assert!(sick.findings[0].text.contains("calls of work failed in a row"), "{}", sick.findings[0]);
    sleep(Duration::from_secs(60)).await;
    assert!(inbox.oncebox.health().await.is_healthy());
    worker.stop().await.unwrap();
}

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stalled_loop_is_unhealthy() {
    let inbox = Paused::new();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).without_upkeep();
    let mut worker = Box::pin(worker.run(std::future::pending()));
    // Polled once, and then nobody turns it any more.
    tokio::select! {
        biased;
        _ = &mut worker => unreachable!("it works for ever"),
        () = std::future::ready(()) => {}
    }
    tokio::time::advance(Duration::from_secs(31)).await;
    let stalled = inbox.oncebox.health().await;
    assert!(!stalled.is_healthy());
    assert!(stalled.findings[0].text.contains("has not turned for 31 s"), "{}", stalled.findings[0]);
    drop(worker);
    assert!(inbox.oncebox.health().await.is_healthy(), "what is gone does not matter");
}

/// A store of each kind that this bound holds for, opened with it.
async fn bounded(bound: &str, limit: u32) -> Vec<(Oncebox, Option<Directory>)> {
    let directory = Directory::new();
    let place = directory.0.display().to_string();
    let mut opened = vec![
        (Oncebox::open(&format!("memory:?{bound}={limit}")).await.unwrap(), None),
        (Oncebox::open(&format!("embedded:{place}?{bound}={limit}")).await.unwrap(), Some(directory)),
    ];
    if bound == "keys_max" {
        let database = Postgres::shared().unwrap().lend_database().unwrap();
        let url = format!("{}?ensure=yes&{bound}={limit}", database.url());
        opened.push((Oncebox::open(&url).await.unwrap(), None));
    }
    opened
}

/// Holds: RULE-20.
#[tokio::test(crate = "crate::timed")]
async fn health_warns_when_a_bound_is_nearly_reached() {
    for (bound, name) in [("messages_max", "messages"), ("keys_max", "keys")] {
        for (oncebox, _directory) in bounded(bound, 10).await {
            for id in 0..7 {
                oncebox.inbox().enqueue(Message::new("t", "test", id.to_string())).await.unwrap();
            }
            assert_eq!(oncebox.health().await.level(), Level::Healthy);
            oncebox.inbox().enqueue(Message::new("t", "test", "8")).await.unwrap();
            let health = oncebox.health().await;
            assert_eq!((health.level(), health.is_healthy()), (Level::Warning, true));
            let found = health.findings[0].to_string();
            assert!(found.starts_with(&format!("{name}: 8 of 10 used: ")), "{}: {found}", oncebox.name());
            assert!(found.contains(&format!("`{bound}`")), "it names what raises the bound: {found}");
            oncebox.close().await.unwrap();
            assert_eq!(oncebox.health().await.level(), Level::Unhealthy);
        }
    }
}

/// The warning comes before the first refusal, and not with the first message.
/// Holds: RULE-20.
#[tokio::test(crate = "crate::timed")]
async fn health_warns_when_memory_is_nearly_used() {
    for (oncebox, _directory) in bounded("live_bytes_max", 100_000).await {
        let mut warned = Vec::new();
        for id in 0..1_000 {
            let message = Message::new("t", "test", id.to_string()).bytes(vec![b'x'; 1_000]);
            if oncebox.inbox().enqueue(message).await.is_err() {
                break;
            }
            let health = oncebox.health().await;
            assert!(health.findings.iter().all(|finding| finding.subject == "live_bytes"), "{health:?}");
            warned.push(health.level() == Level::Warning);
        }
        let first = warned.iter().position(|warned| *warned).expect("it warned before it was full");
        let percent = first * 100 / warned.len();
        assert!((75..85).contains(&percent), "{}: {percent} % used without a warning", oncebox.name());
    }
}
