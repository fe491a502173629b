//! Short helpers for the calls of a mailbox client.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::http::Answer;
use super::rig::Server;

/// No messages.
pub(crate) const NOTHING: [Value; 0] = [];

pub(crate) fn base64(payload: impl AsRef<[u8]>) -> String {
    STANDARD.encode(payload)
}

/// Decodes base64.
#[track_caller]
pub(crate) fn bytes(base64: &str) -> Vec<u8> {
    STANDARD.decode(base64).expect("base64")
}

/// A string field.
#[track_caller]
pub(crate) fn text<'a>(json: &'a Value, name: &str) -> &'a str {
    json[name].as_str().unwrap_or_else(|| panic!("{name} is a string: {json}"))
}

/// A string field of each item.
#[track_caller]
pub(crate) fn texts<'a>(list: &'a [Value], name: &str) -> Vec<&'a str> {
    list.iter().map(|item| text(item, name)).collect()
}

/// Milliseconds since the epoch of a timestamp as the server writes it.
#[track_caller]
pub(crate) fn timestamp_ms(text: &str) -> i64 {
    let number = |from: usize, to: usize| text[from..to].parse::<i64>().expect("digits");
    assert_eq!((text.len(), &text[10..11], &text[23..]), (24, "T", "Z"), "{text}");
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    // Years start in March, so that the leap day is the last day of the year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + number(11, 13)) * 60 + number(14, 16)) * 60 + number(17, 19);
    seconds * 1_000 + number(20, 23)
}

impl Server {
    /// Sends a text payload.
    pub(crate) fn send(&self, topic: &str, idem_key: &str, payload: &str) -> Answer {
        let payload = base64(payload);
        self.post("/v1/send", &json!({"topic": topic, "idem_key": idem_key, "payload_b64": payload}))
    }

    /// Sends a new message whose payload is its key; returns its id.
    #[track_caller]
    pub(crate) fn sent(&self, topic: &str, idem_key: &str) -> String {
        let sent = self.send(topic, idem_key, idem_key).ok();
        assert_eq!(sent["duplicate"], false, "{sent}");
        text(&sent, "msg_id").to_owned()
    }

    /// Receives the ready messages and holds them for a minute.
    #[track_caller]
    pub(crate) fn recv(&self, topic: &str) -> Vec<Value> {
        self.recv_as(&json!({"topic": topic, "visibility_ms": 60_000, "max_messages": 256}))
    }

    #[track_caller]
    pub(crate) fn recv_as(&self, request: &Value) -> Vec<Value> {
        let received = self.post("/v1/recv", request).ok();
        received["messages"].as_array().expect("a list").clone()
    }

    /// Waits for one message, then holds it for a minute.
    #[track_caller]
    pub(crate) fn recv_one(&self, topic: &str) -> Value {
        let request = json!({"topic": topic, "visibility_ms": 60_000, "max_messages": 1, "wait_ms": 60_000});
        let mut messages = self.recv_as(&request);
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// When the store accepted a message. Unlike `ts`, it can be compared with other times of the store: `ts` is read
    /// on the clock of the server, which may be a little ahead.
    #[track_caller]
    pub(crate) fn accepted_ms(&self, message: &Value) -> i64 {
        let shown = self.get(&format!("/v1/admin/messages/{}", text(message, "msg_id"))).ok();
        timestamp_ms(text(&shown, "accepted_at"))
    }

    /// The time from the acceptance of a message to the end of its visibility timeout.
    #[track_caller]
    pub(crate) fn held_ms(&self, message: &Value) -> i64 {
        timestamp_ms(text(message, "visible_until")) - self.accepted_ms(message)
    }

    pub(crate) fn ack(&self, delivery: &str) -> Answer {
        self.post(&format!("/v1/ack/{delivery}"), &json!({}))
    }

    pub(crate) fn nack(&self, delivery: &str, reason: &str) -> Answer {
        self.post(&format!("/v1/nack/{delivery}"), &json!({"reason": reason}))
    }

    /// Receives the one message of a topic `times` times and nacks it each time.
    #[track_caller]
    pub(crate) fn fail(&self, topic: &str, times: usize) {
        for _ in 0..times {
            let message = self.recv_one(topic);
            assert_eq!(self.nack(text(&message, "receipt"), "it is poison").ok(), json!({"ok": true}));
        }
    }

    #[track_caller]
    pub(crate) fn counts(&self, topic: &str) -> Value {
        self.get(&format!("/v1/admin/counts?topic={topic}")).ok()
    }
}

#[test]
fn timestamps_are_parsed() {
    assert_eq!(timestamp_ms("1970-01-01T00:00:00.000Z"), 0);
    assert_eq!(timestamp_ms("2000-02-29T12:34:56.789Z"), 951_827_696_789);
    assert_eq!(timestamp_ms("2026-11-16T05:56:04.000Z"), 1_794_808_564_000);
}
