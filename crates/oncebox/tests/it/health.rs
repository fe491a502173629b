//! Health, by the runtime's paused time.

use std::time::Duration;

use oncebox::{Level, Message, Oncebox, Worker};
use oncebox_testkit::faulty::{Fault, Operation};
use tokio::time::sleep;

use super::fixture::Paused;

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

/// Holds: RULE-20.
#[tokio::test(crate = "crate::timed")]
async fn health_warns_when_a_bound_is_nearly_reached() {
    let oncebox = Oncebox::open("memory:?messages_max=10").await.unwrap();
    for id in 0..7 {
        oncebox.inbox().enqueue(Message::new("t", "test", id.to_string())).await.unwrap();
    }
    assert_eq!(oncebox.health().await.level(), Level::Healthy);
    oncebox.inbox().enqueue(Message::new("t", "test", "8")).await.unwrap();
    let health = oncebox.health().await;
    assert_eq!((health.level(), health.is_healthy()), (Level::Warning, true));
    assert_eq!(health.findings[0].to_string(), "messages: 8 of 10 used: raise the bound or let things go");
    oncebox.close().await.unwrap();
    assert_eq!(oncebox.health().await.level(), Level::Unhealthy);
}
