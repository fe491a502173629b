//! Somebody changes rows in the database, behind the server's back.

use oncebox_testkit::servers::psql;
use serde_json::{Value, json};

use super::rig::{Server, Store, home};
use super::talk::text;

/// A server on a database, and its URL without what is for the server alone.
fn server() -> (Server, String) {
    let home = home();
    let url = home.url(Store::Postgres);
    let database = url.split('?').next().unwrap_or_default().to_owned();
    (Server::start_in(home, Store::Postgres, &["mailbox.shards=1"]), database)
}

/// Sends two messages, the first of which is changed.
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

/// Receivers are told which message is not what was sent, whichever way they receive; the others come.
/// Holds: MBX-I-12, MBX-G-7, MBX-C-4.
#[test]
fn a_message_that_was_changed_is_named_to_its_receiver_and_delivered_to_nobody() {
    let (server, database) = server();
    let [changed, whole] = send_and_tamper(&server, &database, "recv");
    let answer = server.post("/v1/recv", &json!({"topic": "recv"})).ok();
    assert_eq!(damaged(&answer), [(&*changed, "E_INTEGRITY")]);
    assert_eq!(text(&answer["messages"][0], "msg_id"), whole);
    assert_eq!(answer["messages"].as_array().map(Vec::len), Some(1));
    assert!(server.log().contains(&changed), "the log names it");

    let [changed, whole] = send_and_tamper(&server, &database, "work");
    let answer = server.post("/v1/work", &json!({"settle": [], "recv": {"topic": "work"}})).ok();
    assert_eq!(damaged(&answer), [(&*changed, "E_INTEGRITY")]);
    assert_eq!(text(&answer["messages"][0], "msg_id"), whole);

    let [changed, _] = send_and_tamper(&server, &database, "alone");
    let told = server.post("/v1/recv", &json!({"topic": "alone", "max_messages": 1, "wait_ms": 60_000}));
    let told = told.refused(422, "E_INTEGRITY");
    assert!(told.contains(&changed), "{told}");

    let [changed, whole] = send_and_tamper(&server, &database, "stream");
    let answer = server.post("/v1/recv/stream", &json!({"topic": "stream", "wait_ms": 1}));
    let lines: Vec<Value> = answer.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<_> = lines.iter().map(|line| (text(line, "msg_id"), line["code"].as_str())).collect();
    assert_eq!(told, [(&*whole, None), (&*changed, Some("E_INTEGRITY"))]);

    let series = r#"dlq_total{topic="recv",reason="integrity"}"#;
    assert_eq!(server.eventually(|| server.metric(series)), "1", "it is counted as such");
    let dead = server.get("/v1/dlq?topic=recv").ok();
    assert!(dead.to_string().contains("\"integrity\""), "{dead}");
}
