//! Tests of the helpers for application tests.

use std::panic::AssertUnwindSafe;

use oncebox::testing::{InjectedFault, Operation, TestInbox};
use oncebox::{ErrorKind, Failure, Message, Worker};

fn panic_text(run: impl Future<Output = ()>) -> String {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| runtime.block_on(run))).unwrap_err();
    panic.downcast_ref::<String>().cloned().unwrap_or_default()
}

#[tokio::test(crate = "crate::timed")]
async fn assertions_pass_when_they_hold() {
    let test = TestInbox::new();
    test.inbox().enqueue(Message::new("t", "test", "1").text("a")).await.unwrap();
    test.inbox().enqueue(Message::new("d", "test", "2")).await.unwrap();
    assert_eq!(test.enqueued("t").await.len(), 1);
    let worker =
        Worker::new(test.oncebox()).on("t", async || {}).on("d", async || Err::<(), _>(Failure::dead("no")));
    let stopped = test.drain(worker).await.unwrap();
    assert_eq!((stopped.handled, stopped.dead), (1, 1));
    test.assert_done("test", "1").await;
    test.assert_dead("test", "2").await;
    assert_eq!(test.assert_enqueued("t", "test", "1").await.payload(), "a");
}

#[test]
fn failed_assertions_report_the_actual_state() {
    let test = TestInbox::new();
    let inbox = test.inbox();
    let unknown = panic_text(async { drop(test.assert_enqueued("t", "test", "1").await) });
    assert!(unknown.starts_with("test/1 was not enqueued; messages of topic \"t\": []"), "{unknown}");
    let topic = panic_text(async {
        let _ = inbox.enqueue(Message::new("u", "test", "1")).await;
        drop(test.assert_enqueued("t", "test", "1").await);
    });
    assert_eq!(topic, "test/1 has topic \"u\", not \"t\"");
    let state = panic_text(test.assert_done("test", "1"));
    assert_eq!(state, "test/1 is Processing, not Done; last error: None");
    assert_eq!(panic_text(test.assert_dead("test", "no")), "test/no is unknown, not Dead");
}

#[tokio::test(crate = "crate::timed")]
async fn planned_faults_reach_the_code_under_test_and_not_the_assertions() {
    let test = TestInbox::new();
    test.faults().next_of(Operation::Accept, InjectedFault::FailAfterCommit);
    let message = Message::new("t", "test", "1");
    assert_eq!(test.inbox().enqueue(message.clone()).await.unwrap_err().kind(), ErrorKind::Unavailable);
    test.faults().next_of(Operation::Get, InjectedFault::FailBefore);
    test.assert_enqueued("t", "test", "1").await;
    assert_eq!(test.inbox().enqueue(message).await.unwrap().outcome, oncebox::EnqueueOutcome::Duplicate);
}
