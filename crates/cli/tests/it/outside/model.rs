//! Random calls to the server and to a model of a mailbox: the first difference fails the test and prints the seed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::mailbox_client::text;
use super::rig::{Server, on_every_store};

const STEPS: usize = 400;
const KEYS: u64 = 40;
const ATTEMPTS_MAX: u64 = 3;

/// A seeded pseudo-random generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        let index = usize::try_from(self.below(from.len().max(1) as u64)).ok()?;
        from.get(index)
    }
}

/// The state of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    /// Ready, or waiting for a short backoff.
    Queued,
    Held(String),
    Done,
    Dead,
}

#[derive(Debug)]
struct Message {
    id: String,
    state: State,
    deliveries: u64,
    attempts: u64,
    /// Receipts that are no longer valid.
    stale_receipts: Vec<String>,
    /// The receipt that finished it.
    last: Option<String>,
}

/// The server and the model that it is compared with.
struct Checker<'a> {
    server: &'a Server,
    messages: BTreeMap<String, Message>,
    random: Random,
}

impl Checker<'_> {
    fn keys(&self, matches: impl Fn(&Message) -> bool) -> Vec<String> {
        self.messages.iter().filter(|(_, message)| matches(message)).map(|(key, _)| key.clone()).collect()
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.send(),
            3..=5 => self.receive(),
            6 => self.acknowledge(),
            7 => self.nack(),
            8 => self.settle_late(),
            _ => self.redrive(),
        }
    }

    fn send(&mut self) {
        let key = self.random.below(KEYS).to_string();
        let conflict = self.random.below(8) == 0;
        let payload = if conflict { "another payload" } else { &*key };
        let answer = self.server.send("t", &key, payload);
        match self.messages.get(&key) {
            Some(message) if conflict => {
                answer.refused(409, "E_DUPLICATE");
                assert_eq!(answer.json()["msg_id"], *message.id);
            }
            Some(message) => {
                let sent = answer.ok();
                assert_eq!((&sent["duplicate"], text(&sent, "msg_id")), (&json!(true), &*message.id));
            }
            // The model tracks one payload per key.
            None if conflict => self.purge(text(&answer.ok(), "msg_id")),
            None => {
                let sent = answer.ok();
                assert_eq!(sent["duplicate"], false);
                let id = text(&sent, "msg_id").to_owned();
                let (state, stale_receipts) = (State::Queued, Vec::new());
                let message = Message { id, state, deliveries: 0, attempts: 0, stale_receipts, last: None };
                self.messages.insert(key, message);
            }
        }
    }

    /// Erases a message that the model does not track.
    fn purge(&self, id: &str) {
        let swept = self.server.post("/v1/admin/messages/purge", &json!({"ids": [id], "confirm": true})).ok();
        assert_eq!(swept["changed"], 1);
    }

    fn receive(&mut self) {
        let queued = self.keys(|message| message.state == State::Queued);
        if queued.is_empty() {
            assert_eq!(self.server.recv("t").len(), 0, "nothing is queued");
            return;
        }
        let received = self.server.recv_one("t");
        let key = text(&received, "idem_key");
        assert!(queued.iter().any(|queued| queued == key), "{key} is not queued: {queued:?}");
        let message = self.messages.get_mut(key).expect("the model knows it");
        message.deliveries += 1;
        assert_eq!(
            (text(&received, "msg_id"), &received["attempt"]),
            (&*message.id, &json!(message.deliveries))
        );
        message.state = State::Held(text(&received, "receipt").to_owned());
    }

    /// A random held message and its receipt.
    fn held(&mut self) -> Option<(String, String)> {
        let held = self.keys(|message| matches!(message.state, State::Held(_)));
        let key = self.random.pick(&held)?;
        let State::Held(receipt) = &self.messages[key].state else { return None };
        Some((key.clone(), receipt.clone()))
    }

    fn acknowledge(&mut self) {
        let Some((key, receipt)) = self.held() else { return };
        assert_eq!(self.server.ack(&receipt).ok(), json!({"ok": true}));
        let message = self.messages.get_mut(&key).expect("the model knows it");
        (message.state, message.last) = (State::Done, Some(receipt));
    }

    fn nack(&mut self) {
        let Some((key, receipt)) = self.held() else { return };
        assert_eq!(self.server.nack(&receipt, "no").ok(), json!({"ok": true}));
        let message = self.messages.get_mut(&key).expect("the model knows it");
        message.attempts += 1;
        message.state = if message.attempts >= ATTEMPTS_MAX { State::Dead } else { State::Queued };
        message.stale_receipts.push(receipt);
    }

    /// A stale receipt changes nothing; a repeated acknowledgement gets the same response.
    fn settle_late(&mut self) {
        let keys = self.keys(|message| !message.stale_receipts.is_empty() || message.last.is_some());
        let Some(key) = self.random.pick(&keys) else { return };
        let message = &self.messages[key];
        for stale_receipts in &message.stale_receipts {
            self.server.ack(stale_receipts).refused(404, "E_LEASE_LOST");
        }
        if let Some(last) = &message.last {
            assert_eq!(self.server.ack(last).ok(), json!({"ok": true}));
        }
    }

    fn redrive(&mut self) {
        let dead = self.keys(|message| message.state == State::Dead);
        let swept = self.server.post("/v1/dlq/reprocess", &json!({"topic": "t"})).ok();
        assert_eq!(swept["changed"], dead.len());
        for key in dead {
            let message = self.messages.get_mut(&key).expect("the model knows it");
            (message.state, message.attempts) = (State::Queued, 0);
        }
    }

    fn compare(&self) {
        // Done messages have no topic.
        let counts = self.server.get("/v1/admin/counts").ok();
        let count = |name: &str| counts[name].as_u64().expect("a number");
        let expected = |matches: fn(&State) -> bool| {
            self.messages.values().filter(|message| matches(&message.state)).count() as u64
        };
        assert_eq!(count("ready") + count("waiting"), expected(|state| *state == State::Queued));
        assert_eq!(count("in_flight"), expected(|state| matches!(state, State::Held(_))));
        assert_eq!(
            (count("done"), count("dead")),
            (expected(|state| *state == State::Done), expected(|state| *state == State::Dead))
        );
        for (key, message) in &self.messages {
            let shown: Value = self.server.get(&format!("/v1/admin/messages/{}", message.id)).ok();
            assert_eq!((text(&shown, "id"), &shown["deliveries"]), (&**key, &json!(message.deliveries)));
            assert_eq!(shown["attempts"], message.attempts, "{shown}");
        }
    }
}

/// Replays R-T19.
/// Holds: MBX-I-1, MBX-I-2, MBX-I-4, RULE-06, RULE-07.
#[test]
fn the_server_matches_the_model_of_a_mailbox() {
    let set = [
        "mailbox.topic.attempts_max=3",
        "mailbox.topic.backoff_base=1ms",
        "mailbox.topic.backoff_max=2ms",
        "mailbox.topic.replay_window=1h",
    ];
    on_every_store(&set, |server| {
        for seed in [1, 0x5eed, 0xdead_beef] {
            println!("seed {seed}");
            let mut checker = Checker { server: &server, messages: BTreeMap::new(), random: Random(seed) };
            for step in 0..STEPS {
                println!("step {step}");
                checker.step();
            }
            checker.compare();
            let all: Vec<_> = checker.messages.values().map(|message| message.id.clone()).collect();
            let swept = server.post("/v1/admin/messages/purge", &json!({"ids": all, "confirm": true})).ok();
            assert_eq!(swept["changed"], all.len());
        }
    });
}
