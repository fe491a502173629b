//! An acknowledgement races with the end of the visibility timeout: exactly one of them wins.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::mailbox_client::text;
use super::rig::{Server, on_every_store};

const MESSAGES: usize = 24;
/// The shortest visibility timeout.
const VISIBILITY_MS: u64 = 250;

/// Acknowledges when the visibility timeout is about to end; returns the ids that were acknowledged.
fn acknowledge_late(server: &Server, held: &[Value]) -> Vec<String> {
    let wait = VISIBILITY_MS - 5;
    server.recv_as(&json!({"topic": "nobody-sends-here", "wait_ms": wait}));
    let acknowledged = held.iter().filter(|message| {
        let answer = server.ack(text(message, "receipt"));
        assert!(answer.status == 200 || answer.status == 404, "{answer:?}");
        answer.status == 200
    });
    acknowledged.map(|message| text(message, "msg_id").to_owned()).collect()
}

/// Receives and acknowledges messages whose visibility timeout has ended, until none is left.
fn take_over(server: &Server) -> Vec<String> {
    let mut acknowledged = Vec::new();
    loop {
        let counts = server.counts("t");
        if [&counts["ready"], &counts["waiting"], &counts["in_flight"]].iter().all(|count| **count == 0) {
            return acknowledged;
        }
        for message in server.recv_as(&json!({"topic": "t", "visibility_ms": 60_000, "wait_ms": 20})) {
            assert!(message["attempt"].as_u64().is_some_and(|attempt| attempt >= 2), "{message}");
            server.ack(text(&message, "receipt")).ok();
            acknowledged.push(text(&message, "msg_id").to_owned());
        }
    }
}

/// Replays R-T20.
/// Holds: MBX-G-3, MBX-I-3, RULE-05.
#[test]
fn an_ack_at_the_end_of_the_visibility_timeout_takes_effect_at_most_once() {
    on_every_store(&[], |server| {
        for number in 0..MESSAGES {
            server.sent("t", &number.to_string());
        }
        let request = json!({"topic": "t", "visibility_ms": VISIBILITY_MS, "max_messages": MESSAGES});
        let held = server.recv_as(&request);
        assert_eq!(held.len(), MESSAGES);
        let (late, taken) = std::thread::scope(|scope| {
            let late = scope.spawn(|| acknowledge_late(&server, &held));
            (take_over(&server), late.join().unwrap())
        });
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for id in late.iter().chain(&taken) {
            *times.entry(id.clone()).or_default() += 1;
        }
        assert_eq!(times.len(), MESSAGES, "no message is lost");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
    });
}
