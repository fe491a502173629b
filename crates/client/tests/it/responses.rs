//! Invalid and unusual responses.

use oncebox_client::wire::operator::{CountRequest, ShowRequest};
use oncebox_client::{Client, ClientErrorKind};

use crate::scripted_server::{Reply, ScriptedServer};

#[tokio::test]
async fn the_error_of_an_invalid_response_has_its_position_but_no_content() {
    for nonsense in ["", "secret", r#"{"msg_id":"secret"}"#, r#"{"msg_id":5,"uid":"secret"}"#, "[1,2"] {
        let server = ScriptedServer::of([Reply::ok(nonsense)]);
        let error = server.client().await.message("m", &ShowRequest::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (ClientErrorKind::Malformed, false), "{nonsense}");
        let text = format!("{error} {error:?}");
        assert!(!text.contains("secret"), "{text}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_error_without_an_oncebox_body_has_its_status() {
    for body in ["<html>no</html>", "", "{}", r#"{"code":"E_NEW_ONE","message":"x","corr_id":"c"}"#] {
        let server = ScriptedServer::of([Reply::Text(404, body.into())]);
        let error = server.client().await.stats().await.unwrap_err();
        assert_eq!(
            (error.kind(), error.code(), error.status()),
            (ClientErrorKind::ErrorResponse, None, Some(404)),
            "{body}"
        );
        assert!(error.to_string().contains("status 404"), "{error}");
    }
}

#[tokio::test]
async fn an_error_response_is_read_up_to_a_limit() {
    let server = ScriptedServer::of([Reply::Text(400, "x".repeat(1 << 20))]);
    assert_eq!(server.client().await.stats().await.unwrap_err().status(), Some(400));
}

#[tokio::test]
async fn a_response_is_read_up_to_a_limit() {
    let server = ScriptedServer::of([Reply::ok(&"x".repeat((64 << 20) + 1))]);
    let error = server.client().await.counts(&CountRequest::default()).await.unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Malformed);
    assert!(error.to_string().contains("67108864 bytes"), "{error}");
}

#[tokio::test]
async fn not_being_ready_is_a_response() {
    let ready = r#"{"status":"unavailable","degraded":true,"reads":false,"writes":false,"missing":["store"],"findings":[]}"#;
    let server = ScriptedServer::of([Reply::Text(503, ready.into())]);
    let ready = server.client().await.ready().await.unwrap();
    assert_eq!((ready.reads, ready.missing), (false, vec!["store".to_owned()]));
}

#[tokio::test]
async fn metrics_are_returned_as_text() {
    let server = ScriptedServer::of([Reply::ok("# HELP x\nx 1\n")]);
    assert_eq!(server.client().await.metrics().await.unwrap(), "# HELP x\nx 1\n");
}

#[tokio::test]
async fn an_empty_id_is_rejected_before_it_is_sent() {
    let client = Client::new("http://127.0.0.1:1").unwrap();
    assert_eq!(client.ack("").await.unwrap_err().kind(), ClientErrorKind::Invalid);
}
