//! Rows that are changed directly in the database.

use oncebox_testkit::servers::psql;
use serde_json::{Value, json};

use super::mailbox_client::text;
use super::rig::{Server, Store, new_storage};

/// A server on a database, and the URL of the database without the server's parameters.
fn server() -> (Server, String) {
    let storage = new_storage();
    let url = storage.url(Store::Postgres);
    let database = url.split('?').next().unwrap_or_default().to_owned();
    (Server::start_in(storage, Store::Postgres, &["mailbox.shards=1"]), database)
}

/// Sends two messages and changes the first one.
fn send_and_tamper(server: &Server, database: &str, topic: &str) -> [String; 2] {
    let ids = [server.sent(topic, "changed"), server.sent(topic, "whole")];
    let change = "update oncebox.message set attributes = '{\"amount\": \"1000000\"}'";
    let changed =
        psql(database, &format!("{change} where topic = '{topic}' and id = 'changed' returning id"));
    assert_eq!(changed.expect("the database answers").trim(), "changed");
    ids
}

fn damaged(answer: &Value) -> Vec<(&str, &str)> {
    let list = answer["damaged"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|one| (text(one, "msg_id"), text(one, "code"))).collect()
}

/// Every receiving call names the message that was changed and delivers the others.
/// Holds: MBX-I-12, MBX-G-7, MBX-C-4.
#[test]
fn a_changed_message_is_reported_and_not_delivered() {
    let (server, database) = server();
    let [changed, whole] = send_and_tamper(&server, &database, "recv");
    let answer = server.post("/v1/recv", &json!({"topic": "recv"})).ok();
    assert_eq!(damaged(&answer), [(&*changed, "E_INTEGRITY")]);
    assert_eq!(text(&answer["messages"][0], "msg_id"), whole);
    assert_eq!(answer["messages"].as_array().map(Vec::len), Some(1));
    assert!(server.log().contains(&changed), "the log names the message");

    let [changed, whole] = send_and_tamper(&server, &database, "work");
    let answer = server.post("/v1/work", &json!({"settle": [], "recv": {"topic": "work"}})).ok();
    assert_eq!(damaged(&answer), [(&*changed, "E_INTEGRITY")]);
    assert_eq!(text(&answer["messages"][0], "msg_id"), whole);

    let [changed, _] = send_and_tamper(&server, &database, "alone");
    let reply = server.post("/v1/recv", &json!({"topic": "alone", "max_messages": 1, "wait_ms": 60_000}));
    let reply = reply.refused(422, "E_INTEGRITY");
    assert!(reply.contains(&changed), "{reply}");

    let [changed, whole] = send_and_tamper(&server, &database, "stream");
    let answer = server.post("/v1/recv/stream", &json!({"topic": "stream", "wait_ms": 1}));
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reply: Vec<_> = lines.iter().map(|line| (text(line, "msg_id"), line["code"].as_str())).collect();
    assert_eq!(reply, [(&*whole, None), (&*changed, Some("E_INTEGRITY"))]);

    let series = r#"dlq_total{topic="recv",reason="integrity"}"#;
    assert_eq!(server.eventually(|| server.metric(series)), "1", "it is counted as an integrity failure");
    let dead = server.get("/v1/dlq?topic=recv").ok();
    assert!(dead.to_string().contains("\"integrity\""), "{dead}");
}
