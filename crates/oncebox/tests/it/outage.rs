//! A database that hangs and recovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use oncebox::{ErrorKind, Message, Oncebox, Worker};
use oncebox_testkit::servers::Postgres;
use tokio::time::{sleep, timeout};

use crate::timed::within;

/// Half of the time that a call waits for a connection.
const SOON: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Senders get an error soon, even many at the same time; workers resume by themselves, and no accepted message is
/// lost.
/// Holds: RULE-25.
#[tokio::test(crate = "crate::timed", flavor = "multi_thread", worker_threads = 2)]
async fn calls_fail_soon_while_the_database_hangs_and_work_resumes_afterwards() {
    let server = Postgres::start().unwrap();
    let oncebox = Oncebox::open(&format!("{}?ensure=yes", server.url())).await.unwrap();
    let inbox = oncebox.inbox();
    let handled = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&handled);
    let worker = Worker::new(&oncebox).on("t", move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let worker = worker.start().unwrap();
    inbox.enqueue(Message::new("t", "test", "before")).await.unwrap();
    within("the first is handled", async {
        while handled.load(Ordering::Relaxed) < 1 {
            sleep(PAUSE).await;
        }
    })
    .await;
    server.freeze();
    let senders = (0..50).map(|number| {
        let inbox = oncebox.inbox();
        tokio::spawn(async move {
            let message = Message::new("t", "test", number.to_string());
            timeout(SOON, inbox.enqueue(message)).await.expect("the call returns soon")
        })
    });
    let senders: Vec<_> = senders.collect();
    for sender in senders {
        let error = sender.await.unwrap().expect_err("the database hangs");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let health = timeout(SOON, oncebox.health()).await.expect("the call returns soon");
    assert!(health.findings.iter().any(|finding| finding.subject == "store"), "{health:?}");
    assert!(!health.is_healthy());
    server.thaw();
    within("it is healthy again", async {
        while !oncebox.health().await.is_healthy() {
            sleep(PAUSE).await;
        }
    })
    .await;
    inbox.enqueue(Message::new("t", "test", "after")).await.unwrap();
    within("all accepted messages are handled", async {
        loop {
            let counts = oncebox.operator("test").counts(None).await.unwrap();
            if counts.ready + counts.waiting + counts.leased == 0 {
                break;
            }
            sleep(PAUSE).await;
        }
    })
    .await;
    assert!(handled.load(Ordering::Relaxed) >= 2);
    worker.stop().await.unwrap();
    oncebox.close().await.unwrap();
}
