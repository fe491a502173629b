//! Which calls are retried, and which are not.

use std::time::Duration;

use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::ledger::TryBeginRequest;
use oncebox_client::wire::mailbox::{NackRequest, RecvRequest, SendRequest, WorkRequest};
use oncebox_client::wire::operator::SweepRequest;
use oncebox_client::{Client, ClientErrorKind};
use tokio::net::TcpListener;

use crate::scripted_server::{Reply, ScriptedServer};

const SENT: &str = r#"{"msg_id":"m","duplicate":false,"dedup_until":"2026-01-01T00:00:00Z"}"#;

fn message() -> SendRequest {
    let payload_b64 = b"secret payload".to_vec().into();
    SendRequest { topic: "t".into(), idem_key: "secret key".into(), payload_b64, ..SendRequest::default() }
}

#[tokio::test]
async fn a_send_is_retried_with_the_same_key_and_correlation_id() {
    for failure in [
        Reply::error(503, "E_UNAVAILABLE"),
        Reply::error(429, "E_SATURATED"),
        Reply::error(408, "E_TIMEOUT"),
        Reply::Text(503, "a proxy says no".into()),
        Reply::Disconnect,
    ] {
        let server = ScriptedServer::of([failure.clone(), failure, Reply::ok(SENT)]);
        assert_eq!(server.client().await.send(&message()).await.unwrap().msg_id, "m");
        let requests = server.requests();
        assert_eq!(requests.len(), 3);
        assert!(requests.iter().all(|one| one.body == requests[0].body));
        assert!(requests.iter().all(|one| one.header("x-corr-id") == requests[0].header("x-corr-id")));
    }
}

#[tokio::test]
async fn other_error_responses_are_not_retried() {
    for (status, code) in
        [(400, "E_SCHEMA"), (409, "E_DUPLICATE"), (503, "E_CORRUPT"), (501, "E_UNSUPPORTED")]
    {
        let server = ScriptedServer::of([Reply::error(status, code), Reply::ok(SENT)]);
        let error = server.client().await.send(&message()).await.unwrap_err();
        assert_eq!(error.code().map(ErrorCode::as_str), Some(code));
        assert_eq!((error.status(), error.corr_id()), (Some(status), Some("server-id")));
        assert_eq!(error.to_string(), "why: do this");
        assert_eq!(server.requests().len(), 1, "{code}");
    }
}

#[tokio::test]
async fn retries_are_bounded() {
    let server = ScriptedServer::of(vec![Reply::error(503, "E_UNAVAILABLE"); 9]);
    let client = Client::builder(&server.listen().await).retries(2).build().unwrap();
    assert!(client.send(&message()).await.unwrap_err().is_retryable());
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn a_retry_after_beyond_the_timeout_is_left_to_the_caller() {
    let server = ScriptedServer::of([Reply::RetryAfter(429, 120), Reply::ok(SENT)]);
    let error = server.client().await.send(&message()).await.unwrap_err();
    assert_eq!((error.retry_after(), error.is_retryable()), (Some(Duration::from_secs(120)), true));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_receive_is_retried_with_the_same_request_id() {
    let server = ScriptedServer::of([Reply::Disconnect, Reply::ok(r#"{"messages":[]}"#)]);
    let request = RecvRequest { topic: "t".into(), wait_ms: Some(60_000), ..RecvRequest::default() };
    assert_eq!(server.client().await.recv(&request).await.unwrap().messages, []);
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].json("request_id"), requests[1].json("request_id"));
    assert_eq!(requests[0].json("request_id").as_str().unwrap().len(), 36);
    assert!(requests[1].json("wait_ms").as_u64().unwrap() <= 60_000);
}

#[tokio::test]
async fn work_is_retried_with_the_same_request_id() {
    let server = ScriptedServer::of([Reply::Disconnect, Reply::ok(r#"{"results":[],"messages":[]}"#)]);
    let recv = RecvRequest { topic: "t".into(), ..RecvRequest::default() };
    server.client().await.work(&WorkRequest { settle: Vec::new(), recv }).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].json("recv")["request_id"], requests[1].json("recv")["request_id"]);
}

#[tokio::test]
async fn calls_that_are_unsafe_to_retry_are_made_once() {
    let server = ScriptedServer::of(vec![Reply::error(503, "E_UNAVAILABLE"); 9]);
    let client = server.client().await;
    client.try_begin(&TryBeginRequest::default()).await.unwrap_err();
    client.redrive(&SweepRequest::default()).await.unwrap_err();
    client.purge(&SweepRequest::default()).await.unwrap_err();
    client.nack(&"0".repeat(26), &NackRequest::default()).await.unwrap_err();
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_nack_by_receipt_is_retried() {
    let server = ScriptedServer::of([Reply::Disconnect, Reply::ok(r#"{"ok":true}"#)]);
    assert!(server.client().await.nack(&"0".repeat(80), &NackRequest::default()).await.unwrap().ok);
}

#[tokio::test]
async fn a_connection_error_does_not_contain_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let client = Client::builder(&address).retries(1).build().unwrap();
    let error = client.send(&message()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.is_retryable(), error.status()),
        (ClientErrorKind::Unreachable, true, None)
    );
    let text = format!("{error} {error:?}");
    assert!(text.contains("is the server running?") && !text.contains("secret"), "{text}");
    assert!(error.corr_id().is_some(), "a call that was not sent has a correlation id");
}

#[tokio::test]
async fn a_server_that_does_not_respond_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let client = Client::builder(&address).timeout(Duration::from_millis(50)).build().unwrap();
    let error = client.send(&message()).await.unwrap_err();
    assert_eq!((error.kind(), error.is_retryable()), (ClientErrorKind::TimedOut, true));
}

/// Calls can be made from spawned tasks.
#[tokio::test]
async fn calls_can_move_between_threads() {
    let server = ScriptedServer::of([Reply::ok(SENT), Reply::ok(r#"{"messages":[]}"#), Reply::ok("")]);
    let client = server.client().await;
    let task = tokio::spawn(async move {
        client.send(&message()).await.unwrap();
        client.recv(&RecvRequest::default()).await.unwrap();
        client.recv_stream(&RecvRequest::default()).await.unwrap().next().await.is_none()
    });
    assert!(task.await.unwrap());
}
