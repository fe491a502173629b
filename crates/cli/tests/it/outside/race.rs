//! An acknowledgement against the end of a visibility: one of them wins, never both.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rig::{Server, on_every_store};
use super::talk::text;

const MESSAGES: usize = 24;
/// The shortest visibility.
const VISIBILITY_MS: u64 = 250;

/// Acknowledges when the visibility is about to end; gives the ids of those that counted.
fn acknowledge_late(server: &Server, held: &[Value]) -> Vec<String> {
    let wait = VISIBILITY_MS - 5;
    server.recv_as(&json!({"topic": "nobody-sends-here", "wait_ms": wait}));
    let counted = held.iter().filter(|message| {
        let answer = server.ack(text(message, "receipt"));
        assert!(answer.status == 200 || answer.status == 404, "{answer:?}");
        answer.status == 200
    });
    counted.map(|message| text(message, "msg_id").to_owned()).collect()
}

/// Takes over what ends, and acknowledges it, until nothing is left.
fn take_over(server: &Server) -> Vec<String> {
    let mut counted = Vec::new();
    loop {
        let counts = server.counts("t");
        if [&counts["ready"], &counts["waiting"], &counts["in_flight"]].iter().all(|count| **count == 0) {
            return counted;
        }
        for message in server.recv_as(&json!({"topic": "t", "visibility_ms": 60_000, "wait_ms": 20})) {
            assert!(message["attempt"].as_u64().is_some_and(|attempt| attempt >= 2), "{message}");
            server.ack(text(&message, "receipt")).ok();
            counted.push(text(&message, "msg_id").to_owned());
        }
    }
}

/// Replays R-T20.
/// Holds: MBX-G-3, MBX-I-3, RULE-05.
#[test]
fn an_acknowledgement_at_the_end_of_a_visibility_counts_once_or_not_at_all() {
    on_every_store(&[], |server| {
        for number in 0..MESSAGES {
            server.sent("t", &number.to_string());
        }
        let wish = json!({"topic": "t", "visibility_ms": VISIBILITY_MS, "max_messages": MESSAGES});
        let held = server.recv_as(&wish);
        assert_eq!(held.len(), MESSAGES);
        let (late, taken) = std::thread::scope(|scope| {
            let late = scope.spawn(|| acknowledge_late(&server, &held));
            (take_over(&server), late.join().unwrap())
        });
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for id in late.iter().chain(&taken) {
            *times.entry(id.clone()).or_default() += 1;
        }
        assert_eq!(times.len(), MESSAGES, "none is lost");
        assert!(times.values().all(|times| *times == 1), "{times:?}");
    });
}
