//! What requests look like.

use oncebox_client::wire::ledger::{MarkProcessed, Release, TryBegin};
use oncebox_client::wire::mailbox::{Extend, Nack, Op, SendBatch, Settle, SettleItem};
use oncebox_client::wire::operator::{
    ByKey, Count, List, ListDead, ListTopics, Namespace, Redrive, Show, Sweep,
};
use oncebox_client::{Client, Error};

use crate::rig::{Answer, Rig};

/// Each call, and the request that it makes. That the answers are of no use does not matter.
#[tokio::test]
async fn every_call_has_its_path() -> Result<(), Error> {
    let rig = Rig::of([]);
    let client = rig.client().await;
    let by_key = ByKey {
        namespace: Some(Namespace::Inbox),
        source: Some("s/1".into()),
        id: "ä".into(),
        payload: None,
    };
    let settle =
        Settle { settle: vec![SettleItem { op: Op::Ack, delivery: "d".into(), ..SettleItem::default() }] };
    let _ = client.send_batch(&SendBatch::default()).await;
    let _ = client.ack("a/b").await;
    let _ = client.nack("a%b", &Nack { reason: Some("no".into()), ..Nack::default() }).await;
    let _ = client.extend("d", &Extend { visibility_ms: 500 }).await;
    let _ = client.settle(&settle).await;
    let _ = client.dlq(&ListDead { topic: Some("a b".into()), limit: Some(3), ..ListDead::default() }).await;
    let _ = client.dead_letter("m", &Show { payload: Some(true) }).await;
    let _ = client.redrive_dead_letters(&Redrive::default()).await;
    let _ = client.try_begin(&TryBegin { key: "k".into(), ..TryBegin::default() }).await;
    let _ = client.mark_processed(&MarkProcessed::default()).await;
    let _ = client.release(&Release::default()).await;
    let _ = client.ledger_entry("bus:group/key").await;
    let _ = client.messages(&List::default()).await;
    let _ = client.message("m", &Show::default()).await;
    let _ = client.message_by_key(&by_key).await;
    let _ = client.redrive(&Sweep::default()).await;
    let _ = client.purge(&Sweep::default()).await;
    let _ = client.counts(&Count { topic: Some("t".into()), ..Count::default() }).await;
    let _ = client.topics(&ListTopics { after: Some("a b".into()), ..ListTopics::default() }).await;
    let _ = client.stats().await;
    let _ = client.live().await;
    let _ = client.ready().await;
    let _ = client.metrics().await;
    let lines: Vec<_> =
        rig.asked().iter().map(|asked| format!("{} {} {}", asked.method, asked.uri, asked.body)).collect();
    let expected = [
        r#"POST /v1/send/batch {"messages":[]}"#,
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
        "GET /v1/messages ",
        "GET /v1/messages/m ",
        "GET /v1/messages/by-key?id=%C3%A4&namespace=inbox&source=s%2F1 ",
        r#"POST /v1/messages/redrive {"dry_run":false,"confirm":false}"#,
        r#"POST /v1/messages/purge {"dry_run":false,"confirm":false}"#,
        "GET /v1/counts?topic=t ",
        "GET /v1/admin/topics?after=a%20b ",
        "GET /v1/stats ",
        "GET /healthz ",
        "GET /readyz ",
        "GET /metrics ",
    ];
    assert_eq!(lines, expected);
    Ok(())
}

#[tokio::test]
async fn a_request_says_who_asks_and_what_it_carries() {
    let rig = Rig::of([]);
    let id = "0191e1b0-0000-7000-8000-000000000000";
    let client = Client::builder(&rig.listen().await).corr_id(id).actor("ann").build().unwrap();
    let _ = client.redrive(&Sweep::default()).await;
    let asked = &rig.asked()[0];
    assert_eq!((asked.header("x-corr-id"), asked.header("x-actor")), (id, "ann"));
    assert_eq!(asked.header("content-type"), "application/json");
    assert!(asked.header("host").starts_with("127.0.0.1:"));
}

#[tokio::test]
async fn each_call_has_a_correlation_of_its_own() {
    let rig = Rig::of([Answer::ok(r#"{"status":"live"}"#), Answer::ok(r#"{"status":"live"}"#)]);
    let client = rig.client().await;
    assert_eq!(client.live().await.unwrap().status, "live");
    client.live().await.unwrap();
    let asked = rig.asked();
    assert_ne!(asked[0].header("x-corr-id"), asked[1].header("x-corr-id"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_unix_socket_is_an_address_too() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("oncebox.sock");
    let rig = Rig::of([Answer::ok(r#"{"status":"live"}"#)]);
    let (listener, app) = (tokio::net::UnixListener::bind(&path).unwrap(), rig.app());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let client = Client::new(&format!("unix:{}", path.display())).unwrap();
    assert_eq!(client.live().await.unwrap().status, "live");
    assert_eq!(rig.asked()[0].header("host"), "localhost");
}
