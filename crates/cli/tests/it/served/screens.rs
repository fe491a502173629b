//! Human-readable output: tables that fit, separated payloads, errors that name command-line flags.

use serde_json::Value;

use super::{Served, text};

const WIDTH: usize = 80;

/// The lines of a table, which fit a terminal of 80 columns.
#[track_caller]
fn table(served: &Served, arguments: &[&str]) -> Vec<String> {
    let output = served.command(&[arguments, &["--output", "table"]].concat()).env("COLUMNS", "80").output();
    let output = output.expect("the binary runs");
    let lines = String::from_utf8(output.stdout).expect("the output is text");
    assert!(output.status.success(), "{arguments:?} {}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<_> = lines.lines().map(str::to_owned).collect();
    assert!(lines.iter().all(|line| line.chars().count() <= WIDTH), "{arguments:?}: {lines:#?}");
    lines
}

#[test]
fn raw_payloads_are_separated() {
    let served = Served::start(&["--amnesia", "--store", "memory:"]);
    let send = |keys: &[&str]| {
        for key in keys {
            served.json(&["send", "t", "--key", key, "--data", key]);
        }
    };
    let recv = |more: &[&str]| {
        let recv = ["recv", "t", "--wait", "10s", "--ack", "--raw"];
        served.command(&[&recv[..], more].concat()).output().expect("the binary runs").stdout
    };
    send(&["a", "b\nc", "d"]);
    assert_eq!(recv(&[]), b"a", "a single payload is written byte for byte");
    assert_eq!(recv(&["--max", "2"]), b"b\nc\nd\n");
    send(&["e", "f\ng"]);
    assert_eq!(recv(&["--max", "2", "--null"]), b"e\0f\ng\0");
    let ran = served.run(&["recv", "t", "--null"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

#[test]
fn errors_name_the_flag_that_was_typed() {
    let served = Served::start(&["--amnesia", "--store", "memory:"]);
    served.json(&["send", "t", "--key", "k", "--data", "x"]);
    let long = "k".repeat(1_025);
    for (arguments, named) in [
        (&["recv", "t", "--visibility", "100ms"][..], "--visibility is 100, "),
        (&["recv", "t", "--wait", "61s"], "--wait must be at most "),
        (&["recv", ""], "TOPIC "),
        (&["send", "t", "--key", &long, "--data", "x"], "--key "),
        (&["send", "t", "--key", "k2", "--data", "x", "--partition", &long], "--partition "),
        (&["dlq", "list", "--topic", &long], "--topic "),
        (&["messages", "list", "--source", &long], "--source "),
        (&["ledger", "begin", &long], "KEY "),
        (&["explain", "--topic", "t", "--key", &long], "--key "),
    ] {
        let ran = served.run(arguments);
        assert!(matches!(ran.code, Some(2 | 3)), "{ran:?}");
        let error = ran.stderr.strip_prefix("oncebox: ").unwrap_or_default();
        assert!(error.starts_with(named), "{named}: {}", ran.stderr);
    }
}

#[test]
fn topics_are_shown_as_a_table_and_as_json() {
    let served = Served::start(&["--set", "mailbox.topic.attempts_max=1"]);
    let ran = served.run(&["topics"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{ran:?}");
    for key in ["1", "2"] {
        served.json(&["send", "orders", "--key", key, "--data", "x"]);
    }
    let long = "a-topic-with-quite-a-long-name.".repeat(4);
    served.json(&["send", &long, "--key", "3", "--data", "x"]);
    let envelope = served.json(&["recv", &long, "--wait", "10s"]);
    served.json(&["nack", text(&envelope, "receipt")]);
    let orders = served.json(&["topics", "orders"]);
    assert_eq!((text(&orders, "topic"), &orders["ready"]), ("orders", &Value::from(2)));
    let lines = served.run(&["topics", "--output", "json"]).stdout;
    let topics: Vec<Value> = serde_json::from_str(&lines).expect("a document");
    assert_eq!(topics.iter().map(|topic| &topic["dead"]).collect::<Vec<_>>(), [1, 0]);
    let lines = table(&served, &["topics"]);
    assert_eq!(lines.len(), 3, "{lines:#?}");
    assert!(lines[0].starts_with("topic") && lines[0].contains("oldest"), "{lines:#?}");
    assert!(lines[1].contains('…') && lines[2].starts_with("orders"), "{lines:#?}");
    let full = served.run(&["topics", "--full", "--output", "table"]).stdout;
    assert!(full.contains(&long), "{full}");
    let one = served.run(&["topics", "--limit", "1"]);
    assert!(one.stdout.lines().count() == 1 && one.stderr.contains("--limit"), "{one:?}");
}

/// Texts are truncated; ids are not, because they are copied into the next command.
#[test]
fn tables_fit_eighty_columns_and_show_ages() {
    let served = Served::start(&["--set", "mailbox.topic.attempts_max=1"]);
    let (topic, key) = ("payments.received.from.the.north", "payment-2026-11-18-000000000000017");
    let error = "the bank answered with an error that takes many words to show: ".repeat(3);
    served.json(&["send", topic, "--key", key, "--data", "x"]);
    let envelope = served.json(&["recv", topic, "--wait", "10s"]);
    served.json(&["nack", text(&envelope, "receipt"), "--reason", &error]);
    served.json(&["send", topic, "--key", "fresh", "--data", "x"]);
    let id = text(&envelope, "msg_id");
    for arguments in [&["dlq", "list"][..], &["messages", "list", "--state", "dead"]] {
        let lines = table(&served, arguments);
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[1].starts_with(id) && lines[1].contains("exhausted"), "{lines:#?}");
        assert!(lines[1].ends_with(" ago"), "{lines:#?}");
        assert!(lines[2].contains("last error: the bank"), "{lines:#?}");
    }
    let full = served.run(&["dlq", "list", "--full", "--output", "table"]).stdout;
    for whole in [topic, key, text(&served.json(&["dlq", "show", id]), "accepted_at"), error.trim_end()] {
        assert!(full.contains(whole), "{whole} in {full}");
    }
    let stats = table(&served, &["stats"]);
    let bytes = stats.iter().find(|line| line.starts_with("live_bytes")).expect("a bound");
    assert!(bytes.contains("KiB") && bytes.contains("MiB") || bytes.contains("GiB"), "{bytes}");
    let full = served.run(&["stats", "--full", "--output", "table"]).stdout;
    assert!(!full.contains("MiB") && !full.contains("GiB"), "{full}");
    let shown = served.run(&["messages", "show", id, "--output", "table"]).stdout;
    assert!(shown.contains(" ago)"), "{shown}");
}

#[test]
fn dlq_list_and_messages_list_take_the_same_flags() {
    let served = Served::start(&["--set", "mailbox.topic.attempts_max=1"]);
    for (topic, key) in [("a", "1"), ("a", "2"), ("b", "3")] {
        served.json(&["send", topic, "--key", key, "--data", "x"]);
        let envelope = served.json(&["recv", topic, "--wait", "10s"]);
        served.json(&["nack", text(&envelope, "receipt"), "--reason", "boom"]);
    }
    let keys = |arguments: &[&str]| -> Vec<String> {
        let ran = served.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?} {ran:?}");
        let lines = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.map(|message| text(&message, "id").to_owned()).collect()
    };
    for (flags, expected) in [
        (&[][..], &["1", "2", "3"][..]),
        (&["--newest"], &["3", "2", "1"]),
        (&["--topic", "a", "--newest", "--limit", "1"], &["2"]),
        (&["--reason", "exhausted", "--topic", "b"], &["3"]),
        (&["--reason", "expired"], &[]),
    ] {
        assert_eq!(keys(&[&["dlq", "list"], flags].concat()), expected, "{flags:?}");
        assert_eq!(keys(&[&["messages", "list", "--state", "dead"], flags].concat()), expected, "{flags:?}");
    }
}
