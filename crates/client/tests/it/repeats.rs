//! What is repeated, and what is not.

use std::time::Duration;

use oncebox_client::wire::Code;
use oncebox_client::wire::ledger::TryBegin;
use oncebox_client::wire::mailbox::{Nack, Recv, Send, Work};
use oncebox_client::wire::operator::Sweep;
use oncebox_client::{Client, Kind};
use tokio::net::TcpListener;

use crate::rig::{Answer, Rig};

const SENT: &str = r#"{"msg_id":"m","duplicate":false,"dedup_until":"2026-01-01T00:00:00Z"}"#;

fn message() -> Send {
    let payload_b64 = b"secret payload".to_vec().into();
    Send { topic: "t".into(), idem_key: "secret key".into(), payload_b64, ..Send::default() }
}

#[tokio::test]
async fn a_send_is_repeated_with_the_same_key_and_correlation() {
    for trouble in [
        Answer::error(503, "E_UNAVAILABLE"),
        Answer::error(429, "E_SATURATED"),
        Answer::error(408, "E_TIMEOUT"),
        Answer::Text(503, "a proxy says no".into()),
        Answer::Break,
    ] {
        let rig = Rig::of([trouble.clone(), trouble, Answer::ok(SENT)]);
        assert_eq!(rig.client().await.send(&message()).await.unwrap().msg_id, "m");
        let asked = rig.asked();
        assert_eq!(asked.len(), 3);
        assert!(asked.iter().all(|one| one.body == asked[0].body));
        assert!(asked.iter().all(|one| one.header("x-corr-id") == asked[0].header("x-corr-id")));
    }
}

#[tokio::test]
async fn what_the_server_refuses_is_not_repeated() {
    for (status, code) in
        [(400, "E_SCHEMA"), (409, "E_DUPLICATE"), (503, "E_CORRUPT"), (501, "E_UNSUPPORTED")]
    {
        let rig = Rig::of([Answer::error(status, code), Answer::ok(SENT)]);
        let error = rig.client().await.send(&message()).await.unwrap_err();
        assert_eq!(error.code().map(Code::as_str), Some(code));
        assert_eq!((error.status(), error.corr_id()), (Some(status), Some("server-id")));
        assert_eq!(error.to_string(), "why: do this");
        assert_eq!(rig.asked().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn repeats_are_bounded() {
    let rig = Rig::of(vec![Answer::error(503, "E_UNAVAILABLE"); 9]);
    let client = Client::builder(&rig.listen().await).retries(2).build().unwrap();
    assert!(client.send(&message()).await.unwrap_err().is_retryable());
    assert_eq!(rig.asked().len(), 3);
}

#[tokio::test]
async fn a_pause_that_would_outlast_the_call_is_left_to_the_caller() {
    let rig = Rig::of([Answer::Later(429, 120), Answer::ok(SENT)]);
    let error = rig.client().await.send(&message()).await.unwrap_err();
    assert_eq!((error.retry_after(), error.is_retryable()), (Some(Duration::from_secs(120)), true));
    assert_eq!(rig.asked().len(), 1);
}

#[tokio::test]
async fn a_receive_is_repeated_under_one_request_id() {
    let rig = Rig::of([Answer::Break, Answer::ok(r#"{"messages":[]}"#)]);
    let wish = Recv { topic: "t".into(), wait_ms: Some(60_000), ..Recv::default() };
    assert_eq!(rig.client().await.recv(&wish).await.unwrap().messages, []);
    let asked = rig.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].json("request_id"), asked[1].json("request_id"));
    assert_eq!(asked[0].json("request_id").as_str().unwrap().len(), 36);
    assert!(asked[1].json("wait_ms").as_u64().unwrap() <= 60_000);
}

#[tokio::test]
async fn a_round_of_work_is_repeated_under_one_request_id() {
    let rig = Rig::of([Answer::Break, Answer::ok(r#"{"results":[],"messages":[]}"#)]);
    let recv = Recv { topic: "t".into(), ..Recv::default() };
    rig.client().await.work(&Work { settle: Vec::new(), recv }).await.unwrap();
    let asked = rig.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].json("recv")["request_id"], asked[1].json("recv")["request_id"]);
}

#[tokio::test]
async fn what_a_repeat_could_change_is_asked_once() {
    let rig = Rig::of(vec![Answer::error(503, "E_UNAVAILABLE"); 9]);
    let client = rig.client().await;
    client.try_begin(&TryBegin::default()).await.unwrap_err();
    client.redrive(&Sweep::default()).await.unwrap_err();
    client.purge(&Sweep::default()).await.unwrap_err();
    client.nack(&"0".repeat(26), &Nack::default()).await.unwrap_err();
    assert_eq!(rig.asked().len(), 4);
}

#[tokio::test]
async fn a_nack_by_its_receipt_is_repeated() {
    let rig = Rig::of([Answer::Break, Answer::ok(r#"{"ok":true}"#)]);
    assert!(rig.client().await.nack(&"0".repeat(80), &Nack::default()).await.unwrap().ok);
}

#[tokio::test]
async fn nobody_there_is_told_without_what_was_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(&address).retries(1).build().unwrap();
    let error = client.send(&message()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable(), error.status()), (Kind::Unreachable, true, None));
    let told = format!("{error} {error:?}");
    assert!(told.contains("is the server running?") && !told.contains("secret"), "{told}");
    assert!(error.corr_id().is_some(), "a call that nobody saw has an id of its own");
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::builder(&address).timeout(Duration::from_millis(50)).build().unwrap();
    let error = client.send(&message()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (Kind::TimedOut, true));
}

/// Calls can be made from tasks of their own.
#[tokio::test]
async fn calls_can_move_between_threads() {
    let rig = Rig::of([Answer::ok(SENT), Answer::ok(r#"{"messages":[]}"#), Answer::ok("")]);
    let client = rig.client().await;
    let task = tokio::spawn(async move {
        client.send(&message()).await.unwrap();
        client.recv(&Recv::default()).await.unwrap();
        client.recv_stream(&Recv::default()).await.unwrap().next().await.is_none()
    });
    assert!(task.await.unwrap());
}
