//! Crashes and restarts: confirmed messages survive, held messages are redelivered, and order is kept as documented.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::mpsc::channel;

use serde_json::json;

use super::http::{Connection, Request};
use super::mailbox_client::{NOTHING, base64, text, texts};
use super::rig::{Server, on_durable_stores, on_every_store};

/// Number of concurrent senders.
const SENDERS: usize = 4;
/// Number of responses before the crash.
const ANSWERS: usize = 100;

/// Sends until the server is killed; reports every confirmed key.
fn send_until_killed(address: &str, sender: usize, answered: impl Fn(String)) {
    let mut connection = Connection::tcp(address);
    for number in 0.. {
        let idem_key = format!("{sender}-{number}");
        let body = json!({"topic": "t", "idem_key": idem_key, "payload_b64": base64(&idem_key)});
        if connection.try_write(&Request::post("/v1/send", &body).to_bytes()).is_err() {
            return;
        }
        match connection.try_answer() {
            Ok(answer) => assert_eq!(answer.ok()["duplicate"], false),
            Err(_) => return,
        }
        answered(idem_key);
    }
}

/// Replays R-T14.
/// Holds: MBX-G-1, MBX-I-1, RULE-13.
#[test]
fn confirmed_messages_survive_a_crash() {
    on_durable_stores(|store| {
        let server = Server::start(store, &[]);
        let (address, answered) = (server.address.clone(), Mutex::new(BTreeSet::new()));
        let (sender, answers) = channel();
        let storage = std::thread::scope(|scope| {
            for number in 0..SENDERS {
                let (address, answered, sender) = (&address, &answered, sender.clone());
                scope.spawn(move || {
                    send_until_killed(address, number, |idem_key| {
                        answered.lock().unwrap().insert(idem_key);
                        // The receiver is gone after the crash.
                        let _ = sender.send(());
                    });
                });
            }
            for _ in 0..ANSWERS {
                answers.recv().unwrap();
            }
            server.kill()
        });
        let server = Server::start_in(storage, store, &[]);
        let mut found = BTreeSet::new();
        loop {
            let messages = server.recv("t");
            if messages.is_empty() {
                break;
            }
            found.extend(messages.iter().map(|message| text(message, "idem_key").to_owned()));
        }
        let answered = answered.into_inner().unwrap();
        let lost: Vec<_> = answered.difference(&found).collect();
        assert!(lost.is_empty(), "confirmed and lost: {lost:?}");
        assert!(found.len() <= answered.len() + SENDERS, "each sender had at most one unanswered call");
    });
}

/// Replays R-T14.
/// Holds: MBX-G-1, MBX-I-3.
#[test]
fn held_messages_are_redelivered_after_a_crash_and_acknowledged_ones_are_not() {
    on_durable_stores(|store| {
        let server = Server::start(store, &["mailbox.shards=1"]);
        let ids: Vec<_> = ["1", "2", "3"].into_iter().map(|idem_key| server.sent("t", idem_key)).collect();
        let request = json!({"topic": "t", "visibility_ms": 1_000, "max_messages": 2, "wait_ms": 60_000});
        let held = server.recv_as(&request);
        server.ack(text(&held[0], "receipt")).ok();
        let storage = server.kill();
        let server = Server::start_in(storage, store, &["mailbox.shards=1"]);
        assert_eq!(
            server.ack(text(&held[0], "receipt")).ok(),
            json!({"ok": true}),
            "the same response as before"
        );
        assert_eq!(server.send("t", "1", "1").ok()["duplicate"], true, "keys survive a crash");
        let mut received = vec![server.recv_one("t"), server.recv_one("t")];
        received.sort_by_key(|message| text(message, "idem_key").to_owned());
        assert_eq!(texts(&received, "msg_id"), [&ids[1], &ids[2]]);
        assert_eq!((&received[0]["attempt"], &received[1]["attempt"]), (&json!(2), &json!(1)));
        assert_eq!(server.recv("t"), NOTHING);
    });
}

/// Replays R-T15.
/// Holds: MBX-I-14, RULE-11.
#[test]
fn a_shard_delivers_in_the_order_of_sending() {
    on_every_store(&["mailbox.shards=1"], |server| {
        let keys: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        for idem_key in &keys {
            server.sent("t", idem_key);
        }
        let mut received = Vec::new();
        for size in [1, 7, 32, 256] {
            received.extend(
                server.recv_as(&json!({"topic": "t", "max_messages": size, "visibility_ms": 60_000})),
            );
        }
        assert_eq!(texts(&received, "idem_key"), keys);
    });
}

/// Replays R-T15.
/// Holds: MBX-G-9, MBX-C-5, MBX-I-14, RULE-11.
#[test]
fn after_a_crash_a_shard_delivers_at_most_32_messages_past_the_oldest_held_one() {
    on_durable_stores(|store| {
        let set = ["mailbox.shards=1"];
        let server = Server::start(store, &set);
        let keys: Vec<_> = (0..100).map(|number| number.to_string()).collect();
        for idem_key in &keys {
            server.sent("t", idem_key);
        }
        let request = json!({"topic": "t", "max_messages": 2, "visibility_ms": 3_600_000});
        let inherited = server.recv_as(&request);
        assert_eq!(texts(&inherited, "idem_key"), keys[..2]);
        let server = Server::start_in(server.kill(), store, &set);
        let ahead = server.recv("t");
        assert!(ahead.len() <= 32, "{} are past the oldest held message", ahead.len());
        assert_eq!(texts(&ahead, "idem_key"), keys[2..2 + ahead.len()]);
        assert_eq!(server.recv("t"), NOTHING);
        let depth = ahead.len().to_string();
        let shown = |shard: &str| server.metric(&format!("reorder_depth_max{{shard=\"{shard}\"}}"));
        assert_eq!((shown("0"), shown("1"), shown("other")), (Some(depth), None, None));
        server.ack(text(&inherited[0], "receipt")).ok();
        server.ack(text(&inherited[1], "receipt")).ok();
        let rest = server.recv("t");
        assert_eq!(texts(&rest, "idem_key"), keys[2 + ahead.len()..], "all of them, in order");
    });
}
