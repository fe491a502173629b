//! The requests that calls make.

use oncebox_client::wire::ledger::{MarkProcessedRequest, ReleaseRequest, TryBeginRequest};
use oncebox_client::wire::mailbox::{
    ExtendRequest, NackRequest, SendBatchRequest, SettleBatchRequest, SettleItem, SettleOp,
};
use oncebox_client::wire::operator::{
    ByKeyRequest, CountRequest, ListDeadRequest, ListPausedRequest, ListRequest, ListTopicsRequest,
    NamespaceName, PauseName, PauseRequest, QueueName, RedriveRequest, ShowRequest, SweepRequest,
};
use oncebox_client::{Client, ClientError};

use crate::scripted_server::{Reply, ScriptedServer};

/// Each call and its request; the responses do not matter.
#[tokio::test]
async fn every_call_has_its_path() -> Result<(), ClientError> {
    let server = ScriptedServer::of([]);
    let client = server.client().await;
    let by_key = ByKeyRequest {
        namespace: Some(NamespaceName::Inbox),
        source: Some("s/1".into()),
        id: "ä".into(),
        payload: None,
    };
    let settle = SettleBatchRequest {
        settle: vec![SettleItem { op: SettleOp::Ack, delivery: "d".into(), ..SettleItem::default() }],
    };
    let _ = client.send_batch(&SendBatchRequest::default()).await;
    let _ = client.ack("a/b").await;
    let _ = client.nack("a%b", &NackRequest { reason: Some("no".into()), ..NackRequest::default() }).await;
    let _ = client.extend("d", &ExtendRequest { visibility_ms: 500 }).await;
    let _ = client.settle(&settle).await;
    let _ = client
        .dlq(&ListDeadRequest { topic: Some("a b".into()), limit: Some(3), ..ListDeadRequest::default() })
        .await;
    let _ = client.dead_letter("m", &ShowRequest { payload: Some(true) }).await;
    let _ = client.redrive_dead_letters(&RedriveRequest::default()).await;
    let _ = client.try_begin(&TryBeginRequest { key: "k".into(), ..TryBeginRequest::default() }).await;
    let _ = client.mark_processed(&MarkProcessedRequest::default()).await;
    let _ = client.release(&ReleaseRequest::default()).await;
    let _ = client.ledger_entry("bus:group/key").await;
    let _ = client.messages(&ListRequest::default()).await;
    let _ = client.message("m", &ShowRequest::default()).await;
    let _ = client.message_by_key(&by_key).await;
    let _ = client.redrive(&SweepRequest::default()).await;
    let _ = client.purge(&SweepRequest::default()).await;
    let _ = client.counts(&CountRequest { topic: Some("t".into()), ..CountRequest::default() }).await;
    let _ = client.stats().await;
    let _ = client.live().await;
    let _ = client.ready().await;
    let _ = client.metrics().await;
    let lines = lines(&server);
    let expected = [
        r#"POST /v1/queues/mailbox/send {"messages":[]}"#,
        "POST /v1/ack/a%2Fb ",
        r#"POST /v1/nack/a%25b {"reason":"no"}"#,
        r#"POST /v1/extend/d {"visibility_ms":500}"#,
        r#"POST /v1/settle {"settle":[{"op":"ack","delivery":"d"}]}"#,
        "GET /v1/dlq?limit=3&topic=a%20b ",
        "GET /v1/dlq/m?payload=true ",
        r#"POST /v1/dlq/redrive {"dry_run":false}"#,
        r#"POST /v1/inbox/try-begin {"key":"k"}"#,
        r#"POST /v1/inbox/mark-processed {"key":""}"#,
        r#"POST /v1/inbox/release {"key":"","leaseId":""}"#,
        "GET /v1/inbox/bus%3Agroup%2Fkey ",
        "GET /v1/admin/messages ",
        "GET /v1/admin/messages/m ",
        "GET /v1/admin/messages/by-key?id=%C3%A4&namespace=inbox&source=s%2F1 ",
        r#"POST /v1/admin/messages/redrive {"dry_run":false,"confirm":false}"#,
        r#"POST /v1/admin/messages/purge {"dry_run":false,"confirm":false}"#,
        "GET /v1/admin/counts?topic=t ",
        "GET /v1/admin/stats ",
        "GET /healthz ",
        "GET /readyz ",
        "GET /metrics ",
    ];
    assert_eq!(lines, expected);
    Ok(())
}

#[tokio::test]
async fn every_call_about_topics_has_its_path() {
    let server = ScriptedServer::of([]);
    let client = server.client().await;
    let _ =
        client.topics(&ListTopicsRequest { after: Some("a b".into()), ..ListTopicsRequest::default() }).await;
    let _ = client.paused_topics(&ListPausedRequest { namespace: Some(QueueName::Inbox) }).await;
    let pause = PauseRequest {
        topic: "t".into(),
        pause: Some(PauseName::Sending),
        because: Some("moving".into()),
        ..PauseRequest::default()
    };
    let _ = client.pause_topic(&pause).await;
    let _ = client.resume_topic(&PauseRequest { topic: "t".into(), ..PauseRequest::default() }).await;
    let expected = [
        "GET /v1/admin/topics?after=a%20b ",
        "GET /v1/admin/topics/paused?namespace=inbox ",
        r#"POST /v1/admin/topics/pause {"topic":"t","pause":"sending","because":"moving"}"#,
        r#"POST /v1/admin/topics/resume {"topic":"t"}"#,
    ];
    assert_eq!(lines(&server), expected);
}

/// The requests that the server got.
fn lines(server: &ScriptedServer) -> Vec<String> {
    let requests = server.requests();
    requests.iter().map(|request| format!("{} {} {}", request.method, request.uri, request.body)).collect()
}

#[tokio::test]
async fn a_request_has_correlation_actor_and_content_type_headers() {
    let server = ScriptedServer::of([]);
    let id = "0191e1b0-0000-7000-8000-000000000000";
    let client = Client::builder(&server.listen().await).corr_id(id).actor("ann").build().unwrap();
    let _ = client.redrive(&SweepRequest::default()).await;
    let requests = &server.requests()[0];
    assert_eq!((requests.header("x-corr-id"), requests.header("x-actor")), (id, "ann"));
    assert_eq!(requests.header("content-type"), "application/json");
    assert!(requests.header("host").starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn each_call_has_its_own_correlation_id() {
    let server = ScriptedServer::of([Reply::ok(r#"{"status":"live"}"#), Reply::ok(r#"{"status":"live"}"#)]);
    let client = server.client().await;
    assert_eq!(client.live().await.unwrap().status, "live");
    client.live().await.unwrap();
    let requests = server.requests();
    assert_ne!(requests[0].header("x-corr-id"), requests[1].header("x-corr-id"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_a_valid_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("oncebox.sock");
    let server = ScriptedServer::of([Reply::ok(r#"{"status":"live"}"#)]);
    let (listener, app) = (tokio::net::UnixListener::bind(&path).unwrap(), server.app());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = Client::new(&format!("unix:{}", path.display())).unwrap();
    assert_eq!(client.live().await.unwrap().status, "live");
    assert_eq!(server.requests()[0].header("host"), "localhost");
}
