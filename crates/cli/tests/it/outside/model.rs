//! Random calls against the server and against a model of a mailbox: the first difference fails, and tells the seed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rig::{Server, on_every_store};
use super::talk::text;

const STEPS: usize = 400;
const KEYS: u64 = 40;
const ATTEMPTS_MAX: u64 = 3;

/// Numbers that look random and are the same each time.
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

/// Where a message stands.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stand {
    /// Ready, or waiting to be so soon.
    Queued,
    Held(String),
    Done,
    Dead,
}

#[derive(Debug)]
struct Message {
    id: String,
    stand: Stand,
    deliveries: u64,
    attempts: u64,
    /// Receipts that count no more.
    stale: Vec<String>,
    /// The receipt that finished it.
    last: Option<String>,
}

/// The server and what it should do.
struct Pair<'a> {
    server: &'a Server,
    messages: BTreeMap<String, Message>,
    random: Random,
}

impl Pair<'_> {
    fn keys(&self, stands: impl Fn(&Message) -> bool) -> Vec<String> {
        self.messages.iter().filter(|(_, message)| stands(message)).map(|(key, _)| key.clone()).collect()
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.send(),
            3..=5 => self.receive(),
            6 => self.acknowledge(),
            7 => self.give_back(),
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
            // The model knows one payload per key.
            None if conflict => self.forget(text(&answer.ok(), "msg_id")),
            None => {
                let sent = answer.ok();
                assert_eq!(sent["duplicate"], false);
                let id = text(&sent, "msg_id").to_owned();
                let (stand, stale) = (Stand::Queued, Vec::new());
                let message = Message { id, stand, deliveries: 0, attempts: 0, stale, last: None };
                self.messages.insert(key, message);
            }
        }
    }

    /// Erases what only the server should not have kept.
    fn forget(&self, id: &str) {
        let swept = self.server.post("/v1/messages/purge", &json!({"ids": [id], "confirm": true})).ok();
        assert_eq!(swept["changed"], 1);
    }

    fn receive(&mut self) {
        let queued = self.keys(|message| message.stand == Stand::Queued);
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
        message.stand = Stand::Held(text(&received, "receipt").to_owned());
    }

    /// One that is held, and its receipt.
    fn held(&mut self) -> Option<(String, String)> {
        let held = self.keys(|message| matches!(message.stand, Stand::Held(_)));
        let key = self.random.pick(&held)?;
        let Stand::Held(receipt) = &self.messages[key].stand else { return None };
        Some((key.clone(), receipt.clone()))
    }

    fn acknowledge(&mut self) {
        let Some((key, receipt)) = self.held() else { return };
        assert_eq!(self.server.ack(&receipt).ok(), json!({"ok": true}));
        let message = self.messages.get_mut(&key).expect("the model knows it");
        (message.stand, message.last) = (Stand::Done, Some(receipt));
    }

    fn give_back(&mut self) {
        let Some((key, receipt)) = self.held() else { return };
        assert_eq!(self.server.nack(&receipt, "no").ok(), json!({"ok": true}));
        let message = self.messages.get_mut(&key).expect("the model knows it");
        message.attempts += 1;
        message.stand = if message.attempts >= ATTEMPTS_MAX { Stand::Dead } else { Stand::Queued };
        message.stale.push(receipt);
    }

    /// A receipt that counts no more changes nothing; the last acknowledgement again is answered the same.
    fn settle_late(&mut self) {
        let keys = self.keys(|message| !message.stale.is_empty() || message.last.is_some());
        let Some(key) = self.random.pick(&keys) else { return };
        let message = &self.messages[key];
        for stale in &message.stale {
            self.server.ack(stale).refused(404, "E_LEASE_LOST");
        }
        if let Some(last) = &message.last {
            assert_eq!(self.server.ack(last).ok(), json!({"ok": true}));
        }
    }

    fn redrive(&mut self) {
        let dead = self.keys(|message| message.stand == Stand::Dead);
        let swept = self.server.post("/v1/dlq/reprocess", &json!({"topic": "t"})).ok();
        assert_eq!(swept["changed"], dead.len());
        for key in dead {
            let message = self.messages.get_mut(&key).expect("the model knows it");
            (message.stand, message.attempts) = (Stand::Queued, 0);
        }
    }

    fn compare(&self) {
        // What is done has no topic any more.
        let counts = self.server.get("/v1/counts").ok();
        let count = |name: &str| counts[name].as_u64().expect("a number");
        let expected = |stands: fn(&Stand) -> bool| {
            self.messages.values().filter(|message| stands(&message.stand)).count() as u64
        };
        assert_eq!(count("ready") + count("waiting"), expected(|stand| *stand == Stand::Queued));
        assert_eq!(count("in_flight"), expected(|stand| matches!(stand, Stand::Held(_))));
        assert_eq!(
            (count("done"), count("dead")),
            (expected(|stand| *stand == Stand::Done), expected(|stand| *stand == Stand::Dead))
        );
        for (key, message) in &self.messages {
            let shown: Value = self.server.get(&format!("/v1/messages/{}", message.id)).ok();
            assert_eq!((text(&shown, "id"), &shown["deliveries"]), (&**key, &json!(message.deliveries)));
            assert_eq!(shown["attempts"], message.attempts, "{shown}");
        }
    }
}

/// Replays R-T19.
/// Holds: MBX-I-1, MBX-I-2, MBX-I-4, RULE-06, RULE-07.
#[test]
fn the_server_does_what_a_mailbox_does() {
    let set = [
        "mailbox.topic.attempts_max=3",
        "mailbox.topic.backoff_base=1ms",
        "mailbox.topic.backoff_max=2ms",
        "mailbox.topic.replay_window=1h",
    ];
    on_every_store(&set, |server| {
        for seed in [1, 0x5eed, 0xdead_beef] {
            println!("seed {seed}");
            let mut pair = Pair { server: &server, messages: BTreeMap::new(), random: Random(seed) };
            for step in 0..STEPS {
                println!("step {step}");
                pair.step();
            }
            pair.compare();
            let all: Vec<_> = pair.messages.values().map(|message| message.id.clone()).collect();
            let swept = server.post("/v1/messages/purge", &json!({"ids": all, "confirm": true})).ok();
            assert_eq!(swept["changed"], all.len());
        }
    });
}
