//! Messages as they come.

use oncebox_client::wire::Code;
use oncebox_client::wire::mailbox::{Envelope, Recv};
use oncebox_client::{Kind, Stream};

use crate::rig::{Answer, Rig};

fn line(msg_id: &str) -> String {
    serde_json::to_string(&Envelope { msg_id: msg_id.to_owned(), ..Envelope::default() }).expect("JSON")
}

async fn open(text: String) -> Stream {
    let rig = Rig::of([Answer::ok(&text)]);
    rig.client().await.recv_stream(&Recv { topic: "t".into(), ..Recv::default() }).await.expect("it opens")
}

#[tokio::test]
async fn each_line_is_a_message_and_empty_ones_are_none() {
    let mut stream = open(format!("{}\n\n\r\n{}\n{}", line("a"), line("b"), line("c"))).await;
    let mut came = Vec::new();
    while let Some(envelope) = stream.next().await {
        came.push(envelope.unwrap().msg_id);
    }
    assert_eq!(came, ["a", "b", "c"]);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn an_error_in_the_stream_ends_it() {
    let error = r#"{"code":"E_UNAVAILABLE","message":"stopping: come again","corr_id":"c"}"#;
    let mut stream = open(format!("{}\n{error}\n{}\n", line("a"), line("b"))).await;
    assert_eq!(stream.next().await.unwrap().unwrap().msg_id, "a");
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.is_retryable()), (Some(Code::Unavailable), true));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn nonsense_in_the_stream_ends_it() {
    let mut stream = open(format!("secret\n{}\n", line("b"))).await;
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Malformed);
    assert!(!format!("{error} {error:?}").contains("secret"));
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_that_breaks_says_so() {
    let rig = Rig::of([Answer::Break]);
    let mut stream = rig.client().await.recv_stream(&Recv::default()).await.unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap_err().kind(), Kind::Unreachable);
    assert!(stream.next().await.is_none());
}

#[tokio::test]
async fn a_stream_is_asked_for_once_and_has_no_request_id() {
    let rig = Rig::of([Answer::error(503, "E_UNAVAILABLE"), Answer::ok("")]);
    let error = rig.client().await.recv_stream(&Recv::default()).await.unwrap_err();
    assert!(error.is_retryable());
    let asked = rig.asked();
    assert_eq!((asked.len(), asked[0].body.contains("request_id")), (1, false));
}
