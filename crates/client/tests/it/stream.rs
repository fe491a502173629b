//! Receiving messages as a stream.

use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::mailbox::{MessageEnvelope, RecvRequest};
use oncebox_client::{ClientErrorKind, Stream};

use crate::scripted_server::{Reply, ScriptedServer};

fn line(msg_id: &str) -> String {
    serde_json::to_string(&MessageEnvelope { msg_id: msg_id.to_owned(), ..MessageEnvelope::default() })
        .expect("JSON")
}

async fn open(text: String) -> Stream {
    let server = ScriptedServer::of([Reply::ok(&text)]);
    server
        .client()
        .await
        .recv_stream(&RecvRequest { topic: "t".into(), ..RecvRequest::default() })
        .await
        .expect("the stream opens")
}

#[tokio::test]
async fn each_line_is_a_message_and_empty_lines_are_skipped() {
    let mut stream = open(format!("{}\n\n\r\n{}\n{}", line("a"), line("b"), line("c"))).await;
    let mut received = Vec::new();
    while let Some(envelope) = stream.next().await {
        received.push(envelope.unwrap().msg_id);
    }
    assert_eq!(received, ["a", "b", "c"]);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn an_error_in_the_stream_ends_it() {
    let error = r#"{"code":"E_UNAVAILABLE","message":"stopping: retry later","corr_id":"c"}"#;
    let mut stream = open(format!("{}\n{error}\n{}\n", line("a"), line("b"))).await;
    assert_eq!(stream.next().await.unwrap().unwrap().msg_id, "a");
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (Some(ErrorCode::Unavailable), true));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn an_invalid_line_ends_the_stream() {
    let mut stream = open(format!("secret\n{}\n", line("b"))).await;
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Malformed);
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_lost_connection_ends_the_stream_with_an_error() {
    let server = ScriptedServer::of([Reply::Disconnect]);
    let mut stream = server.client().await.recv_stream(&RecvRequest::default()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), ClientErrorKind::Unreachable);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_is_requested_once_and_has_no_request_id() {
    let server = ScriptedServer::of([Reply::error(503, "E_UNAVAILABLE"), Reply::ok("")]);
    let error = server.client().await.recv_stream(&RecvRequest::default()).await.unwrap_err();
    assert!(error.is_retryable());
    let requests = server.requests();
    assert_eq!((requests.len(), requests[0].body.contains("request_id")), (1, false));
}
