//! Answers that are not what they should be.

use oncebox_client::wire::operator::{Count, Show};
use oncebox_client::{Client, Kind};

use crate::rig::{Answer, Rig};

#[tokio::test]
async fn nonsense_is_told_by_place_and_not_by_content() {
    for nonsense in ["", "secret", r#"{"msg_id":"secret"}"#, r#"{"msg_id":5,"uid":"secret"}"#, "[1,2"] {
        let rig = Rig::of([Answer::ok(nonsense)]);
        let error = rig.client().await.message("m", &Show::default()).await.unwrap_err();
        assert_eq!((error.kind(), error.is_retryable()), (Kind::Malformed, false), "{nonsense}");
        let told = format!("{error} {error:?}");
        assert!(!told.contains("secret"), "{told}");
        assert_eq!(rig.asked().len(), 1);
    }
}

#[tokio::test]
async fn an_error_of_somebody_else_is_known_by_its_status() {
    for body in ["<html>no</html>", "", "{}", r#"{"code":"E_NEW_ONE","message":"x","corr_id":"c"}"#] {
        let rig = Rig::of([Answer::Text(404, body.into())]);
        let error = rig.client().await.stats().await.unwrap_err();
        assert_eq!((error.kind(), error.code(), error.status()), (Kind::Refused, None, Some(404)), "{body}");
        assert!(error.to_string().contains("status 404"), "{error}");
    }
}

#[tokio::test]
async fn an_error_is_not_read_without_end() {
    let rig = Rig::of([Answer::Text(400, "x".repeat(1 << 20))]);
    assert_eq!(rig.client().await.stats().await.unwrap_err().status(), Some(400));
}

#[tokio::test]
async fn an_answer_is_not_read_without_end() {
    let rig = Rig::of([Answer::ok(&"x".repeat((64 << 20) + 1))]);
    let error = rig.client().await.counts(&Count::default()).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(error.to_string().contains("67108864 bytes"), "{error}");
}

#[tokio::test]
async fn that_a_server_is_not_ready_is_an_answer() {
    let ready = r#"{"status":"unavailable","degraded":true,"reads":false,"writes":false,"missing":["store"],"findings":[]}"#;
    let rig = Rig::of([Answer::Text(503, ready.into())]);
    let ready = rig.client().await.ready().await.unwrap();
    assert_eq!((ready.reads, ready.missing), (false, vec!["store".to_owned()]));
}

#[tokio::test]
async fn metrics_are_text() {
    let rig = Rig::of([Answer::ok("# HELP x\nx 1\n")]);
    assert_eq!(rig.client().await.metrics().await.unwrap(), "# HELP x\nx 1\n");
}

#[tokio::test]
async fn an_empty_id_is_refused_before_it_is_sent() {
    let client = Client::new("http://127.0.0.1:1").unwrap();
    assert_eq!(client.ack("").await.unwrap_err().kind(), Kind::Invalid);
}
