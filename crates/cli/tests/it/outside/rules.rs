//! Rules that redrive dead letters automatically.

use std::collections::BTreeMap;
use std::fs;

use oncebox_testkit::servers::psql;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::mailbox_client::text;
use super::rig::{Server, SharedStorage, Store, new_storage};

fn rule(topic: &str, more: &str) -> String {
    format!("[[mailbox.redrive]]\ntopic = \"{topic}\"\nage = \"1s\"\nper_minute = 60000\n{more}\n")
}

fn write(storage: &SharedStorage, settings: &str) -> String {
    let file = storage.path().join("oncebox.toml");
    fs::write(&file, settings).expect("a file");
    file.display().to_string()
}

fn start(storage: &SharedStorage, store: Store, settings: &str) -> Server {
    let (url, file) = (storage.url(store), write(storage, settings));
    Server::start_with(storage.clone(), &["--store", &url, "--config", &file], &["mailbox.shards=1"])
}

fn on_every_store(test: impl Fn(&SharedStorage, Store)) {
    for store in [Store::Memory, Store::Embedded, Store::Postgres] {
        println!("on {store:?}");
        test(&new_storage(), store);
    }
}

/// Receives `count` messages and makes them dead letters.
fn bury(server: &Server, topic: &str, count: usize) {
    for _ in 0..count {
        let message = server.recv_one(topic);
        let nack = json!({"dead": true, "reason": "no"});
        server.post(&format!("/v1/nack/{}", text(&message, "receipt")), &nack).ok();
    }
}

/// How often each message was redriven, according to the audit log; every redrive must be by the first rule.
fn redrives(server: &Server) -> BTreeMap<String, u32> {
    let mut redrives = BTreeMap::new();
    for line in server.log().lines().filter(|line| line.contains("mailbox.message.revived")) {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        assert_eq!(text(&line, "actor"), "policy", "{line}");
        assert!(text(&line, "reason").starts_with("mailbox.redrive[0] (topic t"), "{line}");
        *redrives.entry(text(&line, "msg_id").to_owned()).or_default() += 1;
    }
    redrives
}

/// Holds: MBX-I-4, MBX-C-4.
#[test]
fn a_rule_redrives_matching_messages_up_to_its_limit() {
    on_every_store(|storage, store| {
        let rules = [
            rule("t", "times_max = 2\nreason = \"failed\""),
            "[[mailbox.redrive]]\ntopic = \"young\"\nage = \"1h\"\nper_minute = 60000\ntimes_max = 9\n"
                .to_owned(),
            rule("reason", "times_max = 9\nreason = \"expired\""),
        ];
        let server = start(storage, store, &rules.concat());
        for topic in ["young", "reason", "other"] {
            server.sent(topic, "1");
            bury(&server, topic, 1);
        }
        for key in ["1", "2", "3"] {
            server.sent("t", key);
        }
        // Each becomes dead once by its receiver and twice after the rule redrove it.
        bury(&server, "t", 9);
        server.eventually(|| Some(redrives(&server)).filter(|redrives| redrives.values().sum::<u32>() >= 6));
        // A topic without a rule is only redriven by an operator.
        assert_eq!(server.post("/v1/dlq/redrive", &json!({"topic": "other"})).ok()["changed"], 1);
        bury(&server, "other", 1);
        server.sent("t", "last");
        bury(&server, "t", 3);
        let redrives = server.eventually(|| {
            Some(rule_redrives(&server)).filter(|redrives| redrives.values().sum::<u32>() >= 8)
        });
        assert!(redrives.values().all(|times| *times == 2), "twice each: {redrives:?}");
        let dead = |topic: &str| server.counts(topic)["dead"].clone();
        assert_eq!(
            (dead("t"), dead("young"), dead("reason"), dead("other")),
            (json!(4), json!(1), json!(1), json!(1))
        );
        assert_eq!(server.metric("oncebox_mailbox_dlq_rule_redrive_total").as_deref(), Some("8"));
    });
}

/// A full topic does not block the rule for other topics, and the server reports the skipped dead letters.
/// Holds: MBX-I-4, MBX-I-5.
#[test]
fn a_full_shard_does_not_stop_a_rule() {
    on_every_store(|storage, store| {
        let capacity = "[mailbox]\nshard_capacity = 5\n";
        let server = start(storage, store, capacity);
        for topic in ["full", "free"] {
            server.sent(topic, "1");
            bury(&server, topic, 1);
        }
        for key in ["2", "3", "4", "5", "6"] {
            server.sent("full", key);
        }
        write(storage, &format!("{capacity}{}", rule("*", "times_max = 1")));
        server.signal(Signal::HUP);
        server.recv_one("free");
        let finding = server.eventually(|| {
            let findings = server.get("/v1/admin/stats").ok()["findings"].as_array().expect("a list").clone();
            findings.into_iter().find(|finding| text(finding, "text").contains("skipped 1 dead letters"))
        });
        assert!(text(&finding, "text").contains("`mailbox.shard_capacity`"), "{finding}");
        assert_eq!(server.counts("full")["dead"], 1);
        let message = server.recv_one("full");
        server.ack(text(&message, "receipt")).ok();
        server.wait_for_line("no longer skips dead letters");
        assert_eq!(server.counts("full")["dead"], 0, "there is space again");
        assert_eq!(server.log().matches("dead letters in its last pass").count(), 1);
    });
}

/// How often the rule redrove each message, without redrives by operators.
fn rule_redrives(server: &Server) -> BTreeMap<String, u32> {
    let mut redrives = BTreeMap::new();
    for line in server.log().lines().filter(|line| line.contains(r#""actor":"policy""#)) {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        *redrives.entry(text(&line, "msg_id").to_owned()).or_default() += 1;
    }
    redrives
}

/// Two servers with the same rule on one database: no message is redriven more often than the rule allows.
/// Holds: MBX-I-4.
#[test]
fn servers_with_the_same_rule_redrive_no_message_too_often() {
    let storage = new_storage();
    let settings = rule("t", "times_max = 1");
    let [one, two] = [(); 2].map(|()| start(&storage, Store::Postgres, &settings));
    for key in 0..50 {
        one.sent("t", &key.to_string());
    }
    bury(&one, "t", 100);
    // These become dead later and are redriven by a later pass, when the earlier passes have handled the others.
    for key in ["late", "later"] {
        two.sent("t", key);
        bury(&two, "t", 2);
    }
    let mut times = redrives(&one);
    for (uid, count) in redrives(&two) {
        *times.entry(uid).or_default() += count;
    }
    assert_eq!((times.len(), times.values().max()), (52, Some(&1)), "{times:?}");
    assert_eq!(one.counts("t")["dead"], 52);
}

#[test]
fn rules_are_reloaded_and_an_invalid_rule_is_named() {
    on_every_store(|storage, store| {
        let server = start(storage, store, "");
        server.sent("t", "1");
        bury(&server, "t", 1);
        write(storage, "[[mailbox.redrive]]\ntopic = \"t\"\nage = \"soon\"\nper_minute = 1\n");
        server.signal(Signal::HUP);
        let reply = server.wait_for_line("configuration reload failed");
        assert!(reply.contains("mailbox.redrive[0]"), "{reply}");
        assert_eq!(server.counts("t")["dead"], 1);
        write(storage, &rule("t", "times_max = 1"));
        server.signal(Signal::HUP);
        server.wait_for_line("configuration reloaded");
        assert_eq!(text(&server.recv_one("t"), "idem_key"), "1");
    });
}

fn finding(server: &Server) -> Option<String> {
    let answer = server.get("/readyz").json();
    let findings = answer["findings"].as_array()?.clone();
    let finding = findings.iter().find(|finding| finding["subject"] == "redrive")?;
    Some(text(finding, "text").to_owned())
}

/// A failing store is a finding, and the rule continues when the store works again.
#[test]
fn a_rule_that_keeps_failing_is_a_finding_until_it_works_again() {
    let storage = new_storage();
    let server = start(&storage, Store::Postgres, &rule("t", "times_max = 1"));
    server.sent("t", "1");
    let url = storage.url(Store::Postgres);
    let url = url.split('?').next().expect("a URL");
    psql(url, "alter table oncebox.message rename to gone").expect("the table is renamed");
    server.wait_for_line("keeps failing");
    let reply = finding(&server).expect("a finding");
    assert!(reply.contains("mailbox.redrive[0]") && reply.contains("in a row"), "{reply}");
    psql(url, "alter table oncebox.gone rename to message").expect("the table is renamed");
    server.wait_for_line("redrive rule recovered");
    assert_eq!(finding(&server), None);
    bury(&server, "t", 1);
    assert_eq!(text(&server.recv_one("t"), "idem_key"), "1");
}
