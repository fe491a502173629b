//! Health reports, mostly with paused time.

use std::time::Duration;

use oncebox::{Message, Oncebox, Worker, health::HealthLevel};
use oncebox_testkit::faulty::{InjectedFault, Operation};
use oncebox_testkit::servers::Postgres;
use tokio::time::sleep;

use super::fixture::{Directory, Paused};

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_loop_is_unhealthy_while_its_calls_fail_and_recovers() {
    let inbox = Paused::new();
    let worker =
        Worker::new(&inbox.oncebox).on("t", async || Err::<(), _>("failing handlers do not affect health"));
    let worker = worker.poll_interval(Duration::from_secs(1), Duration::from_secs(1)).without_maintenance();
    assert!(inbox.oncebox.health().await.is_healthy(), "before the first pass");
    let worker = worker.start().unwrap();
    inbox.enqueue("t", "1").await;
    sleep(Duration::from_secs(3)).await;
    assert_eq!(inbox.oncebox.health().await.level(), HealthLevel::Healthy);
    for _ in 0..10 {
        inbox.faults.next_of(Operation::Work, InjectedFault::FailBefore);
    }
    sleep(Duration::from_secs(3)).await;
    let health = inbox.oncebox.health().await;
    assert_eq!((health.level(), health.findings[0].subject.as_str()), (HealthLevel::Unhealthy, "worker"));
    assert!(health.findings[0].text.contains("consecutive work calls failed"), "{}", health.findings[0]);
    sleep(Duration::from_secs(60)).await;
    assert!(inbox.oncebox.health().await.is_healthy());
    worker.stop().await.unwrap();
}

/// Holds: CMD-19.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_stalled_loop_is_unhealthy() {
    let inbox = Paused::new();
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).without_maintenance();
    let mut worker = Box::pin(worker.run(std::future::pending()));
    // The worker is polled once and never again.
    tokio::select! {
        biased;
        _ = &mut worker => unreachable!("it runs until stopped"),
        () = std::future::ready(()) => {}
    }
    tokio::time::advance(Duration::from_secs(31)).await;
    let stalled = inbox.oncebox.health().await;
    assert!(!stalled.is_healthy());
    assert!(stalled.findings[0].text.contains("has made no progress for 31 s"), "{}", stalled.findings[0]);
    drop(worker);
    assert!(inbox.oncebox.health().await.is_healthy(), "a dropped worker does not affect health");
}

/// A hook may take its time: the loop has ended.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_long_stop_hook_is_no_stalled_loop() {
    let inbox = Paused::new();
    let minute = Duration::from_secs(60);
    let worker = Worker::new(&inbox.oncebox).on("t", async || {}).without_maintenance();
    let worker = worker.on_stop(async move |_| sleep(minute).await).start().unwrap();
    sleep(Duration::from_secs(1)).await;
    let (stopped, health) = tokio::join!(worker.stop(), async {
        sleep(minute * 3 / 4).await;
        inbox.oncebox.health().await
    });
    stopped.unwrap();
    assert!(health.is_healthy(), "{:?}", health.findings);
}

/// A heartbeat that failed is not repeated once its message is settled.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_failed_heartbeat_does_not_matter_when_nothing_is_left_to_extend() {
    let inbox = Paused::new();
    inbox.enqueue("t", "1").await;
    inbox.faults.next_of(Operation::Extend, InjectedFault::FailBefore);
    let worker = Worker::new(&inbox.oncebox).lease(Duration::from_secs(30)).without_maintenance();
    let worker = worker.on("t", async || sleep(Duration::from_millis(10_100)).await).start().unwrap();
    sleep(Duration::from_millis(10_050)).await;
    let health = inbox.oncebox.health().await;
    assert!(health.findings[0].text.contains("consecutive extend calls failed"), "{}", health.findings[0]);
    sleep(Duration::from_secs(10)).await;
    let health = inbox.oncebox.health().await;
    assert!(health.is_healthy(), "{:?}", health.findings);
    assert_eq!(worker.stop().await.unwrap().handled, 1);
}

/// A worker that claims nothing does not need to know which topics are paused.
#[tokio::test(crate = "crate::timed", start_paused = true)]
async fn a_paused_worker_is_healthy_although_it_could_not_read_the_paused_topics() {
    for in_flight in [false, true] {
        let inbox = Paused::new();
        let second = Duration::from_secs(1);
        let worker = Worker::new(&inbox.oncebox).poll_interval(second, second).without_maintenance();
        let worker = worker.call_timeout(second * 5).on("t", async || {}).start().unwrap();
        sleep(second * 3).await;
        for _ in 0..100 {
            let fault = if in_flight { InjectedFault::Hang } else { InjectedFault::FailBefore };
            inbox.faults.next_of(Operation::Records, fault);
        }
        sleep(second * 3).await;
        assert_eq!(inbox.oncebox.health().await.is_healthy(), in_flight, "no failure yet if it hangs");
        worker.pause().await.unwrap();
        sleep(second * 20).await;
        let health = inbox.oncebox.health().await;
        assert!(health.is_healthy(), "in flight: {in_flight}: {:?}", health.findings);
        worker.stop().await.unwrap();
    }
}

/// Opens a store of each kind that has this bound, with this limit.
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
            assert_eq!(oncebox.health().await.level(), HealthLevel::Healthy);
            oncebox.inbox().enqueue(Message::new("t", "test", "8")).await.unwrap();
            let health = oncebox.health().await;
            assert_eq!((health.level(), health.is_healthy()), (HealthLevel::Warning, true));
            let found = health.findings[0].to_string();
            assert!(found.starts_with(&format!("{name}: 8 of 10 used: ")), "{}: {found}", oncebox.name());
            assert!(found.contains(&format!("`{bound}`")), "it names the setting to raise: {found}");
            oncebox.close().await.unwrap();
            assert_eq!(oncebox.health().await.level(), HealthLevel::Unhealthy);
        }
    }
}

/// Health warns before the first message is rejected, but not with the first message.
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
            warned.push(health.level() == HealthLevel::Warning);
        }
        let first =
            warned.iter().position(|warned| *warned).expect("health warned before the store was full");
        let percent = first * 100 / warned.len();
        assert!((75..85).contains(&percent), "{}: {percent} % used without a warning", oncebox.name());
    }
}
