//! A server at its open-file limit: sends are refused with the reason, readiness reports it, and receivers keep
//! working.

use std::process::Command;

use serde_json::{Value, json};

use super::http::Request;
use super::mailbox_client::{base64, text};
use super::rig::{Server, Store};

const PAYLOAD_BYTES: usize = 1 << 20;

/// Limits the open files of a process; files that are already open stay open.
fn limit(server: &Server, files: u32) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &server.pid().to_string(), &format!("--nofile={files}:")]);
    let status = command.status().expect("`prlimit` of util-linux runs");
    assert!(status.success(), "{status}");
}

fn send(number: usize) -> Request {
    let payload = base64(vec![b'x'; PAYLOAD_BYTES]);
    Request::post("/v1/send", &json!({"topic": "t", "idem_key": number.to_string(), "payload_b64": payload}))
}

fn finding<'a>(answer: &'a Value, subject: &str) -> Option<&'a str> {
    let findings = answer["findings"].as_array().expect("a list");
    findings.iter().find(|finding| finding["subject"] == subject).map(|finding| text(finding, "text"))
}

/// Holds: RULE-27.
#[test]
fn an_open_file_limit_is_reported_to_senders_and_in_readiness() {
    let server = Server::start(Store::Embedded, &[]);
    // A connection needs a file descriptor, too.
    let mut connection = server.connect();
    connection.call(&Request::get("/healthz")).ok();
    limit(&server, 1);
    let refused = (0..200).find_map(|number| {
        let answer = connection.call(&send(number));
        (answer.status != 200).then_some((number, answer))
    });
    let (number, answer) = refused.expect("no segment can be created, but 200 messages were accepted");
    let reply = answer.refused(503, "E_UNAVAILABLE");
    assert!(reply.contains("raise the limit of open files"), "{reply}");
    for (path, status) in [("/readyz", 503), ("/readyz?for=writes", 503), ("/readyz?for=reads", 200)] {
        let ready = connection.call(&Request::get(path));
        let json = ready.json();
        assert_eq!((ready.status, &json["missing"]), (status, &json!(["capacity"])), "{path}: {json}");
        assert_eq!((&json["reads"], &json["writes"]), (&json!(true), &json!(false)), "{json}");
        assert!(finding(&json, "store").is_some_and(|text| text.contains("limit of open files")), "{json}");
        assert_eq!(finding(&json, "disk_bytes"), None, "the disk is not full: {json}");
    }
    let recv = json!({"topic": "t", "visibility_ms": 60_000, "max_messages": 1});
    let received = connection.call(&Request::post("/v1/recv", &recv)).ok();
    let receipt = text(&received["messages"][0], "receipt").to_owned();
    connection.call(&Request::post(&format!("/v1/ack/{receipt}"), &json!({}))).ok();
    assert_eq!(server.log().matches("the journal cannot grow").count(), 1);

    limit(&server, 1_024);
    let request = send(number);
    server.eventually(|| (server.call(&request).status == 200).then_some(()));
    server.eventually(|| (server.get("/readyz").status == 200).then_some(()));
}
