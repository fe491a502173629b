//! Messages whose topic has no handler.

use std::time::Duration;

use oncebox::{MessageState, Worker, WorkerSummary, message::DeadReason, worker::Unhandled};
use tracing::Level;

use super::capture::Capture;
use super::fixture::on_every_store;
use crate::timed::until;

fn counts(stopped: WorkerSummary) -> [u64; 3] {
    [stopped.handled, stopped.retrying, stopped.dead]
}

/// Holds: IBX-074, RULE-15.
#[test]
fn an_unhandled_topic_is_left_abandoned_or_dead_lettered() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        let warnings = || capture.find(Level::WARN, &["no handler for this topic", "topic=other id=1"]).len();
        fixture.enqueue("other", "1").await;
        let worker = || Worker::new(&fixture.oncebox).on("t", async || {});
        assert_eq!(counts(worker().run_until_idle().await.unwrap()), [0, 0, 0]);
        assert_eq!((fixture.show("1").await.deliveries, warnings()), (0, 0));
        let abandon = worker().on_unhandled(Unhandled::Abandon);
        assert_eq!(counts(abandon.run_until_idle().await.unwrap()), [0, 1, 0]);
        let abandoned = fixture.show("1").await;
        assert_eq!((abandoned.attempts, abandoned.dead, warnings()), (1, None, 1));
        assert!(abandoned.retry_at.is_some(), "it will be retried");
        fixture.advance(Duration::from_secs(2));
        let dead = worker().on_unhandled(Unhandled::Dead);
        assert_eq!(counts(dead.run_until_idle().await.unwrap()), [0, 0, 1]);
        assert_eq!((fixture.show("1").await.dead, warnings()), (Some(DeadReason::Unhandled), 2));
    });
}

/// A worker leaves messages that it does not handle and warns about them, on every store.
/// Holds: IBX-074, RULE-15.
#[test]
fn a_running_worker_warns_about_a_topic_without_a_handler() {
    on_every_store(async |fixture| {
        let (capture, _guard) = Capture::start();
        fixture.enqueue("orphan", "1").await;
        fixture.enqueue("t", "2").await;
        let worker = Worker::new(&fixture.oncebox).on("t", async || {}).start().unwrap();
        let warnings = || capture.find(Level::WARN, &["no handler in this process", "topic=orphan"]).len();
        until("the worker warns", async || warnings() == 1).await;
        assert_eq!(capture.find(Level::WARN, &["topic=t "]).len(), 0);
        let left = fixture.show("1").await;
        assert_eq!((left.deliveries, left.state), (0, MessageState::Processing));
        worker.stop().await.unwrap();
    });
}
