//! Commands against a server that this binary runs, over a Unix socket.
#![cfg(unix)]

mod screens;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};

use oncebox_client::Client;
use oncebox_client::wire::mailbox::{RecvRequest, SettleItem, SettleOp, WorkRequest};
use serde_json::Value;
use tempfile::TempDir;

use crate::rig::{CommandOutput, oncebox};

/// A server with its own store; killed when it is dropped.
struct Served {
    directory: TempDir,
    server: Child,
    // Kept open: the server could not log to a closed stderr.
    log: BufReader<ChildStderr>,
}

impl Served {
    fn start(settings: &[&str]) -> Self {
        let directory = TempDir::new().expect("a directory");
        let (server, log) = begin(&directory, settings);
        Self { directory, server, log }
    }

    /// Starts the server again after it exited.
    fn begin(&mut self, settings: &[&str]) {
        (self.server, self.log) = begin(&self.directory, settings);
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = oncebox(arguments);
        command.env("ONCEBOX_SERVER", self.address());
        command
    }

    fn address(&self) -> String {
        format!("unix:{}", self.directory.path().join("s").display())
    }

    fn run(&self, arguments: &[&str]) -> CommandOutput {
        CommandOutput::from(self.command(arguments).output().expect("the binary runs"))
    }

    /// The result of a command that must succeed.
    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?} {ran:?}");
        serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{arguments:?} {error} {ran:?}"))
    }

    /// Stops the server; returns its exit code and the path of its store.
    fn stop(mut self) -> (Option<i32>, TempDir, PathBuf) {
        signal(&self.server, "-TERM");
        let mut line = String::new();
        while self.log.read_line(&mut line).expect("the log is readable") > 0 {}
        let code = self.server.wait().expect("the server exits").code();
        let data = self.directory.path().join("data");
        let directory = std::mem::replace(&mut self.directory, TempDir::new().expect("a directory"));
        (code, directory, data)
    }
}

fn begin(directory: &TempDir, settings: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let listen = format!("unix:{}", directory.path().join("s").display());
    let store = format!("store=embedded:{}", directory.path().join("data").display());
    let arguments = ["serve", "--listen", &listen, "--set", &store, "--log-format", "json"];
    let arguments = [&arguments[..], &["--set", "admin.listen=off"]].concat();
    let mut server =
        oncebox(&arguments).args(settings).stderr(Stdio::piped()).spawn().expect("the server starts");
    let mut log = BufReader::new(server.stderr.take().expect("stderr is piped"));
    let mut line = String::new();
    while !line.contains("\"listening\"") {
        line.clear();
        assert_ne!(log.read_line(&mut line).expect("the log is readable"), 0, "the server exited");
    }
    (server, log)
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn signal(process: &Child, signal: &str) {
    let sent = Command::new("kill").args([signal, &process.id().to_string()]).status().expect("kill runs");
    assert!(sent.success());
}

fn text<'a>(json: &'a Value, field: &str) -> &'a str {
    json[field].as_str().unwrap_or_else(|| panic!("no {field} in {json}"))
}

#[test]
fn a_message_is_sent_received_and_acknowledged() {
    let served = Served::start(&[]);
    let send = [
        "send",
        "orders",
        "--key",
        "k",
        "--data",
        "{\"a\":1}",
        "--json",
        "--attr",
        "from=web",
        "--shard-key",
        "7",
    ];
    let first = served.json(&send);
    let again = served.json(&send);
    assert_eq!((&first["msg_id"], &again["duplicate"]), (&again["msg_id"], &Value::from(true)));
    let ran = served.run(&["send", "orders", "--key", "k", "--data", "other"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
    assert!(
        ran.stderr.contains("E_DUPLICATE") && ran.stderr.contains(text(&first, "msg_id")),
        "{}",
        ran.stderr
    );

    let envelope = served.json(&["recv", "orders", "--wait", "10s", "--worker", "billing-3"]);
    assert_eq!(envelope["shard"], 7, "{envelope}");
    assert_eq!(
        (text(&envelope, "payload_b64"), &envelope["attrs"]["from"]),
        ("eyJhIjoxfQ==", &Value::from("web"))
    );
    let receipt = text(&envelope, "receipt");
    served.json(&["extend", receipt, "--visibility", "60s"]);
    let explained = served.run(&["explain", "--topic", "orders", "--key", "k"]).stdout;
    assert!(
        explained.contains("It was delivered once.") && explained.contains("billing-3 holds it until"),
        "{explained}"
    );
    let held = served.run(&["messages", "list", "--output", "table"]).stdout;
    assert!(held.contains("held by billing-3, ends "), "{held}");
    assert_eq!(served.json(&["ack", receipt])["ok"], true);
    assert_eq!(served.json(&["ack", receipt])["ok"], true, "a repeated ack gets the same response");
    let ran = served.run(&["nack", receipt]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stderr.contains("E_LEASE_LOST"), "{}", ran.stderr);
    assert_eq!(text(&served.json(&["messages", "show", text(&first, "msg_id")]), "state"), "done");

    let (code, _home, data) = served.stop();
    assert_eq!(code, Some(0), "SIGTERM shuts the server down cleanly");
    let ran =
        CommandOutput::from(oncebox(&["store", "verify", &data.display().to_string()]).output().unwrap());
    assert_eq!(ran.stdout, "sound\n", "{ran:?}");
}

#[test]
fn dead_letters_are_redriven_or_purged() {
    let served = Served::start(&["--set", "mailbox.topic.attempts_max=1"]);
    for key in ["a", "b"] {
        served.json(&["send", "bad", "--key", key, "--data", key]);
        let envelope = served.json(&["recv", "bad", "--wait", "10s"]);
        served.json(&["nack", text(&envelope, "receipt"), "--reason", "boom"]);
    }
    let ran = served.run(&["dlq", "list", "--topic", "bad", "--reason", "exhausted"]);
    assert_eq!(ran.stdout.lines().count(), 2, "{ran:?}");
    let one: Value = serde_json::from_str(ran.stdout.lines().next().unwrap()).unwrap();
    let id = text(&one, "msg_id");
    let shown = served.run(&["dlq", "show", id, "--payload", "--output", "table"]).stdout;
    assert!(shown.contains("dead: exhausted") && shown.contains("boom"), "{shown}");
    let last = one["last_lease"]["worker"]
        .as_str()
        .expect("a receiver without a name is named by host and process id");
    let (host, process) = last.rsplit_once(':').expect("a host and a process");
    assert!(!host.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit()), "{last}");
    assert!(shown.contains(&format!("{last} until ")), "{shown}");
    assert_eq!(served.json(&["dlq", "redrive", "--all", "--dry-run"])["matched"], 2);
    assert_eq!(served.json(&["dlq", "redrive", id])["changed"], 1);
    assert_eq!(served.json(&["messages", "purge", "--topic", "bad", "--yes"])["changed"], 1);
    assert_eq!(served.run(&["dlq", "list"]).stdout, "");
    assert_eq!(served.run(&["dlq", "show", id]).code, Some(3), "it is no longer a dead letter");
    let raw = served.command(&["recv", "bad", "--wait", "10s", "--ack", "--raw"]).output().unwrap();
    assert_eq!(raw.stdout, b"a");
}

/// A receiver chooses when a message is redelivered, or that it is not; a sender chooses the first delivery.
#[test]
fn delays_and_deadlines_are_flags() {
    let served =
        Served::start(&["--set", "mailbox.topic.backoff_base=12h", "--set", "mailbox.topic.backoff_max=12h"]);
    served.json(&["send", "t", "--key", "later", "--data", "x", "--due-in", "1h", "--expires-in", "2h"]);
    assert_eq!(served.run(&["recv", "t"]).stdout, "", "the message is not due");
    served.json(&["send", "t", "--key", "k", "--data", "x", "--due-in", "1ms"]);
    let first = served.json(&["recv", "t", "--wait", "10s"]);
    served.json(&["nack", text(&first, "receipt"), "--delay", "1ms"]);
    let again = served.json(&["recv", "t", "--wait", "10s"]);
    assert_eq!((&again["msg_id"], &again["attempt"]), (&first["msg_id"], &Value::from(2)));
    let receipt = text(&again, "receipt");
    let both = served.run(&["nack", receipt, "--delay", "1s", "--dead"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    assert_eq!(served.run(&["nack", receipt, "--delay", "0s"]).code, Some(3));
    served.json(&["nack", receipt, "--dead", "--reason", "no JSON"]);
    let dead_letter = served.json(&["dlq", "list", "--topic", "t"]);
    assert_eq!((text(&dead_letter, "reason"), text(&dead_letter, "last_error")), ("failed", "no JSON"));
}

#[test]
fn ledger_commands_report_their_outcome_by_exit_code() {
    let served = Served::start(&["--amnesia", "--store", "memory:"]);
    let begun = served.json(&["ledger", "begin", "bus:g/1", "--lease", "60s"]);
    assert_eq!(served.run(&["ledger", "begin", "bus:g/1"]).code, Some(4), "another owner has it");
    assert_eq!(text(&served.json(&["ledger", "get", "bus:g/1"]), "status"), "Busy");
    let done = ["ledger", "done", "bus:g/1", "--lease-id", text(&begun, "leaseId")];
    assert_eq!(text(&served.json(&done), "status"), "Processed");
    assert_eq!(served.run(&["ledger", "begin", "bus:g/1"]).code, Some(3), "it is processed");
    let explained = served.run(&["explain", "--namespace", "ledger", "--key", "bus:g/1"]).stdout;
    assert!(explained.contains("returns that it is processed"), "{explained}");
    let stats = served.run(&["stats", "--output", "table"]).stdout;
    assert!(stats.contains("none (amnesia)"), "{stats}");
}

#[test]
fn topics_are_paused_and_resumed() {
    let served = Served::start(&[]);
    served.json(&["send", "t", "--key", "1", "--data", "x"]);
    let listed = served.run(&["pause"]);
    assert_eq!((listed.code, &*listed.stderr), (Some(0), "oncebox: no topic is paused\n"));
    let paused = served.json(&["pause", "t", "--receiving", "--because", "moving", "--output", "json"]);
    assert_eq!((text(&paused[0], "pause"), text(&paused[0], "reason")), ("receiving", "moving"));
    assert_eq!(served.json(&["pause", "--output", "json"]), paused);
    let received = served.run(&["recv", "t"]);
    assert_eq!(received.code, Some(0));
    assert!(received.stderr.contains("the topic is paused"), "{received:?}");
    let topics = served.run(&["topics", "--output", "table"]);
    let row: Vec<_> = topics.stdout.lines().nth(1).unwrap().split_whitespace().take(3).collect();
    assert_eq!(row, ["t", "recv", "1"], "{topics:?}");

    assert_eq!(text(&served.json(&["pause", "t", "--sending", "--output", "json"])[0], "pause"), "both");
    let sent = served.run(&["send", "t", "--key", "2", "--data", "x"]);
    assert_ne!(sent.code, Some(0));
    assert!(sent.stderr.contains("sending to this topic is paused"), "{sent:?}");
    let left = served.json(&["resume", "t", "--receiving", "--output", "json"]);
    assert_eq!(text(&left[0], "pause"), "sending");
    let resumed = served.run(&["resume", "t"]);
    assert_eq!((resumed.code, &*resumed.stderr), (Some(0), "oncebox: nothing is paused in this topic\n"));
    assert_eq!(text(&served.json(&["recv", "t", "--output", "json"])[0], "idem_key"), "1");
}

#[test]
fn follow_ends_on_an_interrupt() {
    let served = Served::start(&["--amnesia", "--store", "memory:"]);
    let mut follow = served.command(&["recv", "live", "--follow", "--ack"]);
    let mut follow = follow.stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(follow.stdout.take().unwrap());
    for key in ["a", "b"] {
        served.json(&["send", "live", "--key", key, "--data", key]);
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let envelope: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(text(&envelope, "idem_key"), key);
    }
    signal(&follow, "-INT");
    assert_eq!(follow.wait().unwrap().code(), Some(130));
}

/// A receiver that follows reconnects to a restarted server.
#[test]
fn follow_survives_a_server_restart() {
    let mut served = Served::start(&[]);
    let mut follow = served.command(&["recv", "live", "--follow", "--ack", "--wait", "100ms"]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(follow.stdout.take().unwrap());
    let mut notes = BufReader::new(follow.stderr.take().unwrap());
    let mut line = String::new();
    served.json(&["send", "live", "--key", "a", "--data", "a"]);
    out.read_line(&mut line).unwrap();
    served.server.kill().unwrap();
    served.server.wait().unwrap();
    let mut note = String::new();
    while !note.contains("retrying") {
        assert_ne!(notes.read_line(&mut note).unwrap(), 0, "{note}");
    }
    served.begin(&[]);
    served.json(&["send", "live", "--key", "b", "--data", "b"]);
    line.clear();
    while !line.contains("\"idem_key\":\"b\"") {
        line.clear();
        assert_ne!(out.read_line(&mut line).unwrap(), 0, "the command keeps following");
    }
    signal(&follow, "-INT");
    assert_eq!(follow.wait().unwrap().code(), Some(130));
}

#[test]
fn the_client_library_works_and_streams() {
    let served = Served::start(&["--amnesia", "--store", "memory:"]);
    for key in ["a", "b", "c"] {
        served.json(&["send", "t", "--key", key, "--data", key]);
    }
    let client = Client::new(&served.address()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let recv = RecvRequest {
            topic: "t".into(),
            max_messages: Some(1),
            wait_ms: Some(10_000),
            ..RecvRequest::default()
        };
        let first = client
            .work(&WorkRequest { settle: Vec::new(), recv: recv.clone() })
            .await
            .unwrap()
            .messages
            .remove(0);
        let ack = SettleItem { op: SettleOp::Ack, delivery: first.receipt, ..SettleItem::default() };
        let worked = client.work(&WorkRequest { settle: vec![ack], recv: recv.clone() }).await.unwrap();
        assert!(worked.results[0].ok);
        let second = worked.messages[0].idem_key.clone();
        let mut stream = client.recv_stream(&RecvRequest { wait_ms: Some(200), ..recv }).await.unwrap();
        let third = stream.next().await.unwrap().unwrap().idem_key;
        let mut received = [first.idem_key, second, third];
        received.sort();
        assert_eq!(received, ["a", "b", "c"]);
        assert!(stream.next().await.is_none(), "the stream ends");
        assert!(client.metrics().await.unwrap().contains("# TYPE"));
        assert!(client.ready().await.unwrap().writes);
    });
}
