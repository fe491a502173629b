//! Metrics: what is counted, and how often.

use serde_json::{Value, json};

use crate::rig::{call, json, metric, start_with};

fn message(topic: &str, key: &str) -> Value {
    json!({"topic": topic, "idem_key": key, "payload_b64": "eA=="})
}

async fn counter(server: &str, name: &str, topic: &str) -> Option<String> {
    metric(server, &format!("{name}{{topic=\"{topic}\"}}")).await
}

/// Every message is counted once, alone or in a batch, under its own topic.
/// Holds: MBX-I-10.
#[tokio::test]
async fn each_message_is_counted_once_alone_or_in_a_batch() {
    let server = start_with(&[]).await;
    let batch = json!({"messages": [
        message("count-a", "1"), message("count-a", "2"), message("count-b", "1"), message("count-a", "3"),
        message("count-a", "1"), {"topic": "count-a", "idem_key": "4", "payload_b64": "eA==", "corr_id": "wrong"},
    ]});
    let sent = json(&call(&server, "POST", "/v1/queues/mailbox/send", &batch.to_string()).await);
    let ok = sent["results"].as_array().unwrap().iter().filter(|result| result["ok"] == true);
    assert_eq!(ok.count(), 5, "{sent}");
    json(&call(&server, "POST", "/v1/send", &message("count-a", "9").to_string()).await);
    json(&call(&server, "POST", "/v1/send", &message("count-b", "1").to_string()).await);
    assert_eq!(counter(&server, "oncebox_mailbox_enqueued_total", "count-a").await.as_deref(), Some("4"));
    assert_eq!(counter(&server, "oncebox_mailbox_duplicates_total", "count-a").await.as_deref(), Some("1"));
    assert_eq!(counter(&server, "oncebox_mailbox_enqueued_total", "count-b").await.as_deref(), Some("1"));
    assert_eq!(counter(&server, "oncebox_mailbox_duplicates_total", "count-b").await.as_deref(), Some("1"));
}

/// Holds: MBX-I-10.
#[tokio::test]
async fn deliveries_and_redeliveries_are_counted() {
    let set = [("mailbox.topic.backoff_base", "1ms"), ("mailbox.topic.backoff_max", "1ms")];
    let server = start_with(&set).await;
    for key in ["1", "2", "3"] {
        json(&call(&server, "POST", "/v1/send", &message("deliver-a", key).to_string()).await);
    }
    let recv = json!({"topic": "deliver-a", "visibility_ms": 60_000});
    let received = json(&call(&server, "POST", "/v1/recv", &recv.to_string()).await);
    let receipts: Vec<_> =
        received["messages"].as_array().unwrap().iter().map(|one| one["receipt"].clone()).collect();
    assert_eq!(receipts.len(), 3);
    let settle = json!({"settle": [
        {"op": "ack", "delivery": receipts[0]}, {"op": "ack", "delivery": receipts[1]},
        {"op": "nack", "delivery": receipts[2]},
    ]});
    json(&call(&server, "POST", "/v1/settle", &settle.to_string()).await);
    let recv = json!({"topic": "deliver-a", "visibility_ms": 60_000, "wait_ms": 60_000});
    let redelivered = json(&call(&server, "POST", "/v1/recv", &recv.to_string()).await);
    assert_eq!(redelivered["messages"][0]["attempt"], 2, "{redelivered}");
    assert_eq!(counter(&server, "oncebox_mailbox_delivered_total", "deliver-a").await.as_deref(), Some("4"));
    assert_eq!(
        counter(&server, "oncebox_mailbox_redelivered_total", "deliver-a").await.as_deref(),
        Some("1")
    );
}

/// Holds: MBX-P-9.
#[tokio::test]
async fn every_retention_is_exported() {
    let set = [
        ("mailbox.topics.kept-a.dlq_keep", "2h"),
        ("mailbox.topics.kept-a.dlq_messages_max", "7"),
        ("mailbox.topics.kept-a.ready_keep", "90s"),
    ];
    let server = start_with(&set).await;
    for (name, stage, expected) in [
        ("oncebox_mailbox_retention_seconds", "dlq", "7200"),
        ("oncebox_mailbox_retention_seconds", "ready", "90"),
        ("oncebox_mailbox_retention_seconds", "inflight", "300"),
        ("oncebox_mailbox_retention_messages", "dlq", "7"),
        ("oncebox_mailbox_retention_messages", "ready", "32768"),
        ("oncebox_mailbox_retention_messages", "inflight", "8192"),
    ] {
        let shown = metric(&server, &format!("{name}{{topic=\"kept-a\",stage=\"{stage}\"}}")).await;
        assert_eq!(shown.as_deref(), Some(expected), "{name} {stage}");
    }
    let usual = metric(&server, r#"oncebox_mailbox_retention_seconds{topic="",stage="dlq"}"#).await;
    assert_eq!(usual.as_deref(), Some("1209600"));
}
