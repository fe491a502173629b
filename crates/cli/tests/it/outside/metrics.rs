//! Metrics and logs: stable metric names, and no secrets.

use std::collections::BTreeSet;

use serde_json::json;

use super::http::Request;
use super::mailbox_client::{base64, text};
use super::rig::{Server, on_every_store};

/// The metric names that dashboards rely on.
const GOLDEN: [(&str, &str); 21] = [
    ("oncebox_ack_latency_seconds", "histogram"),
    ("oncebox_dequeue_latency_seconds", "histogram"),
    ("dlq_total", "counter"),
    ("oncebox_enqueue_latency_seconds", "histogram"),
    ("oncebox_http_connections", "gauge"),
    ("oncebox_http_requests_total", "counter"),
    ("inflight", "gauge"),
    ("oncebox_mailbox_delivered_total", "counter"),
    ("oncebox_mailbox_dlq_depth", "gauge"),
    ("oncebox_mailbox_dlq_reprocess_total", "counter"),
    ("oncebox_mailbox_duplicates_total", "counter"),
    ("oncebox_mailbox_enqueued_total", "counter"),
    ("oncebox_mailbox_profile_info", "gauge"),
    ("oncebox_mailbox_redelivered_total", "counter"),
    ("oncebox_mailbox_settled_total", "counter"),
    ("queue_depth", "gauge"),
    ("reorder_depth_max", "gauge"),
    ("rejected_total", "counter"),
    ("oncebox_request_latency_seconds", "histogram"),
    ("saturation", "gauge"),
    (BOUND, "gauge"),
];
const BOUND: &str = "oncebox_store_bound_used_ratio";

const GUIDE: &str = include_str!("../../../../../docs/guide/server.md");

/// The names in the first column of the guide's table.
fn named_in_the_guide() -> BTreeSet<&'static str> {
    let rows = GUIDE.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2)).collect()
}

/// The first word after this prefix, of each line that has it.
fn words<'a>(metrics: &'a str, start: &str) -> Vec<&'a str> {
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(start));
    lines.filter_map(|line| line.split(' ').next()).collect()
}

/// Produces a value for every metric.
fn exercise(server: &Server) {
    server.sent("t", "1");
    server.send("t", "1", "1").ok();
    server.sent("t", "2");
    let held = server.recv("t");
    server.ack(text(&held[0], "receipt")).ok();
    server.nack(text(&held[1], "receipt"), "no").ok();
    server.fail("t", 1);
    server.eventually(|| server.metric(r#"dlq_total{topic="t",reason="exhausted"}"#));
}

/// Replays R-T21.
/// Holds: MBX-I-10.
#[test]
fn the_golden_metrics_are_exposed_once_each() {
    let set =
        ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"];
    on_every_store(&set, |server| {
        exercise(&server);
        let metrics = server.get("/metrics");
        assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        let types: Vec<_> = metrics.text().lines().filter(|line| line.starts_with("# TYPE ")).collect();
        // PostgreSQL stores have no bounds by default.
        let bounded = server.get("/v1/admin/stats").ok()["bounds"] != json!([]);
        for (name, kind) in GOLDEN.into_iter().filter(|(name, _)| bounded || *name != BOUND) {
            let line = format!("# TYPE {name} {kind}");
            assert_eq!(types.iter().filter(|known| **known == line).count(), 1, "{line}: {types:#?}");
        }
        for series in [
            r#"oncebox_http_requests_total{route="/v1/send",method="POST",status="200"} 3"#,
            r#"oncebox_mailbox_enqueued_total{topic="t"} 2"#,
            r#"oncebox_mailbox_duplicates_total{topic="t"} 1"#,
            r#"oncebox_mailbox_delivered_total{topic="t"} 3"#,
            r#"oncebox_mailbox_redelivered_total{topic="t"} 1"#,
            r#"oncebox_mailbox_dlq_depth{topic="t"} 1"#,
            r#"oncebox_mailbox_settled_total{outcome="ack"} 1"#,
            "oncebox_enqueue_latency_seconds_count 3",
        ] {
            assert!(metrics.text().lines().any(|line| line == series), "{series}:\n{}", metrics.text());
        }
    });
}

/// A dashboard can be built from the guide alone, and every exposed metric is documented.
/// Holds: MBX-I-10.
#[test]
fn the_guide_lists_exactly_the_exposed_metrics_and_each_has_a_help_text() {
    let set =
        ["mailbox.topic.attempts_max=2", "mailbox.topic.backoff_base=1ms", "mailbox.topic.backoff_max=5ms"];
    on_every_store(&set, |server| {
        exercise(&server);
        let metrics = server.get("/metrics");
        let (types, helps) = (words(metrics.text(), "# TYPE "), words(metrics.text(), "# HELP "));
        let exposed: BTreeSet<_> = types.iter().copied().collect();
        assert_eq!(exposed.len(), types.len(), "each has one TYPE line: {types:#?}");
        assert_eq!(exposed, helps.iter().copied().collect(), "each has its HELP line");
        assert_eq!(helps.len(), types.len(), "one each: {helps:#?}");
        let mut named = named_in_the_guide();
        assert!(named.len() > 20, "the table is found: {named:?}");
        if server.get("/v1/admin/stats").ok()["bounds"] == json!([]) {
            named.remove(BOUND);
        }
        assert_eq!(exposed, named);
        let design =
            ["queue_depth", "inflight", "saturation", "rejected_total", "dlq_total", "reorder_depth_max"];
        for name in exposed {
            assert!(name.starts_with("oncebox_") != design.contains(&name), "{name}");
        }
    });
}

/// The basis of an alert on slow receivers.
#[test]
fn the_age_of_the_oldest_message_is_exposed_by_topic() {
    on_every_store(&["mailbox.shards=2"], |server| {
        let age = || server.metric(r#"oncebox_oldest_ready_seconds{topic="t"}"#);
        let seconds = || age().and_then(|age| age.parse::<f64>().ok());
        server.sent("t", "1");
        let first = server.eventually(|| seconds().filter(|seconds| *seconds > 0.05));
        server.eventually(|| seconds().filter(|seconds| *seconds > first));
        let held = server.recv_one("t");
        assert_eq!(age().as_deref(), Some("0"), "no message is ready");
        server.sent("t", "2");
        server.eventually(|| seconds().filter(|seconds| *seconds > 0.0));
        server.recv_one("t");
        server.ack(text(&held, "receipt")).ok();
        assert_eq!(age().as_deref(), Some("0"));
    });
}

/// Labels are bounded: topics beyond the limit share one.
/// Holds: RULE-22.
#[test]
fn topics_beyond_the_limit_share_a_label() {
    on_every_store(&["metrics.topics_max=2"], |server| {
        for topic in ["a", "b", "c", "d"] {
            server.sent(topic, "k");
        }
        let series =
            |topic: &str| server.metric(&format!("oncebox_mailbox_enqueued_total{{topic=\"{topic}\"}}"));
        assert_eq!((series("a").as_deref(), series("b").as_deref()), (Some("1"), Some("1")));
        assert_eq!((series("c"), series("d"), series("other").as_deref()), (None, None, Some("2")));
    });
}

/// Makes calls that succeed and fail with secrets in every field; returns the secrets.
fn send_secrets(server: &Server) -> Vec<String> {
    let (payload, idem_key) = ("payload-hush-51", "key-hush-52");
    let body = json!({
        "topic": "t", "idem_key": idem_key, "payload_b64": base64(payload),
        "attrs": {"attr-hush-53": "value-hush-54"}, "partition": "partition-hush-55",
    });
    let id = text(&server.post("/v1/send", &body).ok(), "msg_id").to_owned();
    server.post("/v1/send", &body).ok();
    server.send("t", idem_key, "conflict-hush-56").refused(409, "E_DUPLICATE");
    server.post("/v1/send", &json!({"topic": "t", "name-hush-57": "value-hush-58"})).refused(400, "E_SCHEMA");
    server.post("/v1/recv", &json!({"topic": "t", "wait_ms": "value-hush-59"})).refused(400, "E_SCHEMA");
    let broken = Request::new("POST", "/v1/send").header("content-type", "application/json");
    server.call(&broken.body("body-hush-60")).refused(400, "E_SCHEMA");
    server.get("/v1/admin/messages?topic=query-hush-61&state=state-hush-62").refused(400, "E_SCHEMA");
    let message = server.recv_one("t");
    server.nack(text(&message, "receipt"), "reason-hush-63").ok();
    server.ack(&id).refused(404, "E_LEASE_LOST");
    server.fail("t", 1);
    let shown = server.get(&format!("/v1/dlq/{id}?payload=true")).ok();
    server.get(&format!("/v1/admin/messages/by-key?source=t&id={idem_key}")).ok();
    let begun =
        server.post("/v1/inbox/try-begin", &json!({"key": "ledger-hush-64", "owner": "owner-hush-65"})).ok();
    server
        .post("/v1/inbox/mark-processed", &json!({"key": "ledger-hush-64", "leaseId": "lease-hush-66"}))
        .ok();
    server.get("/v1/inbox/ledger-hush-64").ok();
    server.get("/path-hush-67").refused(404, "E_NOT_FOUND");
    server.eventually(|| server.metric(r#"dlq_total{topic="t",reason="exhausted"}"#));
    vec![
        "hush".to_owned(),
        base64(payload),
        id,
        text(&shown, "uid").to_owned(),
        text(&begun, "leaseId").to_owned(),
        text(&message, "receipt").to_owned(),
    ]
}

/// Replays R-T21.
/// Holds: RULE-22, LDG-10.
#[test]
fn metrics_and_logs_contain_no_payloads_keys_or_ids() {
    let set = [
        "mailbox.topic.attempts_max=2",
        "mailbox.topic.backoff_base=1ms",
        "mailbox.topic.backoff_max=5ms",
        "log.level=debug",
    ];
    on_every_store(&set, |server| {
        let secrets = send_secrets(&server);
        let metrics = server.get("/metrics");
        server.terminate();
        server.wait_for_line("\"stopped\"");
        let log = server.log();
        assert!(log.contains("rejected") && log.contains("DEBUG"), "debug logging is on: {log}");
        for secret in secrets {
            for (source, text) in [("metrics", metrics.text()), ("log", &*log)] {
                let line = text.lines().find(|line| line.contains(&secret));
                assert_eq!(line, None, "{secret} is in the {source}");
            }
        }
    });
}
