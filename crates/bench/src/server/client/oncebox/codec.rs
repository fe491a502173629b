//! Formats mailbox requests into one buffer, and parses the fields of responses that the load needs.

use std::fmt::Write;

use oncebox_wire::Base64;
use serde::Deserialize;

use super::Key;
use crate::server::job::PAYLOAD_BYTES;

const TOPIC: &str = "bench";
/// Long enough that nothing is redelivered in a run.
const VISIBILITY_MS: u64 = 600_000;

#[derive(Deserialize)]
pub(super) struct Sent {
    pub(super) duplicate: bool,
}

#[derive(Deserialize)]
pub(super) struct SentBatch {
    pub(super) results: Vec<SentItem>,
}

#[derive(Deserialize)]
pub(super) struct SentItem {
    pub(super) ok: bool,
    #[serde(default)]
    pub(super) duplicate: bool,
}

/// The response to receiving, to acknowledging, or to both.
#[derive(Deserialize)]
pub(super) struct Worked<'a> {
    #[serde(default)]
    pub(super) results: Vec<Settled>,
    #[serde(default, borrow)]
    pub(super) messages: Vec<Envelope<'a>>,
}

#[derive(Deserialize)]
pub(super) struct Settled {
    pub(super) ok: bool,
}

#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    pub(super) receipt: &'a str,
    pub(super) idem_key: &'a str,
}

pub(super) struct Codec {
    batch: usize,
    /// The payload as a JSON string, with quotes.
    payload: String,
    buffer: String,
}

impl Codec {
    pub(super) fn new(batch: usize) -> Self {
        let payload =
            serde_json::to_string(&Base64::from(vec![b'x'; PAYLOAD_BYTES])).expect("bytes are JSON");
        Self { batch, payload, buffer: String::new() }
    }

    pub(super) fn send(&mut self, key: Key) -> &[u8] {
        self.buffer.clear();
        self.put_message(key);
        self.buffer.as_bytes()
    }

    pub(super) fn send_batch(&mut self, keys: &[Key]) -> &[u8] {
        self.buffer.clear();
        self.put(format_args!(r#"{{"messages":["#));
        for (index, key) in keys.iter().enumerate() {
            self.put_comma(index);
            self.put_message(*key);
        }
        self.put(format_args!("]}}"));
        self.buffer.as_bytes()
    }

    pub(super) fn recv(&mut self) -> &[u8] {
        self.buffer.clear();
        self.put_recv(None);
        self.buffer.as_bytes()
    }

    pub(super) fn settle(&mut self, receipts: &[String]) -> &[u8] {
        self.buffer.clear();
        self.put(format_args!("{{"));
        self.put_settle(receipts);
        self.put(format_args!("}}"));
        self.buffer.as_bytes()
    }

    pub(super) fn work(&mut self, receipts: &[String], wait_ms: Option<u64>) -> &[u8] {
        self.buffer.clear();
        self.put(format_args!("{{"));
        self.put_settle(receipts);
        self.put(format_args!(r#","recv":"#));
        self.put_recv(wait_ms);
        self.put(format_args!("}}"));
        self.buffer.as_bytes()
    }

    fn put_message(&mut self, key: Key) {
        let Self { payload, buffer, .. } = self;
        let written = write!(buffer, r#"{{"topic":"{TOPIC}","idem_key":"{key}","payload_b64":{payload}}}"#);
        written.expect("writing to a string cannot fail");
    }

    fn put_recv(&mut self, wait_ms: Option<u64>) {
        let batch = self.batch;
        self.put(format_args!(
            r#"{{"topic":"{TOPIC}","visibility_ms":{VISIBILITY_MS},"max_messages":{batch}"#
        ));
        if let Some(wait_ms) = wait_ms {
            self.put(format_args!(r#","wait_ms":{wait_ms}"#));
        }
        self.put(format_args!("}}"));
    }

    fn put_settle(&mut self, receipts: &[String]) {
        self.put(format_args!(r#""settle":["#));
        for (index, receipt) in receipts.iter().enumerate() {
            self.put_comma(index);
            self.put(format_args!(r#"{{"op":"ack","delivery":"{receipt}"}}"#));
        }
        self.put(format_args!("]"));
    }

    fn put_comma(&mut self, index: usize) {
        if index > 0 {
            self.buffer.push(',');
        }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.buffer.write_fmt(text).expect("writing to a string cannot fail");
    }
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox;

    use super::{Codec, Key, Worked};

    /// The wire types reject unknown fields, so parsing shows that the hand-written requests are valid.
    #[test]
    fn requests_match_the_wire_types() {
        let mut codec = Codec::new(100);
        let key = |number| Key { run: 1, number };
        let one: mailbox::SendRequest = serde_json::from_slice(codec.send(key(7))).unwrap();
        assert_eq!((one.idem_key, one.payload_b64.0.len()), (key(7).to_string(), 256));
        let many: mailbox::SendBatchRequest =
            serde_json::from_slice(codec.send_batch(&[key(1), key(2)])).unwrap();
        assert_eq!(many.messages.len(), 2);
        let recv: mailbox::RecvRequest = serde_json::from_slice(codec.recv()).unwrap();
        assert_eq!((recv.max_messages, recv.wait_ms), (Some(100), None));
        let receipts = ["a".to_owned(), "b".to_owned()];
        let settle: mailbox::SettleBatchRequest = serde_json::from_slice(codec.settle(&receipts)).unwrap();
        assert_eq!(settle.settle[1].delivery, "b");
        let work: mailbox::WorkRequest = serde_json::from_slice(codec.work(&[], Some(9))).unwrap();
        assert_eq!((work.settle.len(), work.recv.wait_ms), (0, Some(9)));
    }

    #[test]
    fn responses_are_parsed() {
        let envelope = mailbox::MessageEnvelope { receipt: "r".to_owned(), ..Default::default() };
        let settled = mailbox::SettleResponse { ok: true, ..Default::default() };
        let worked = mailbox::WorkResponse {
            results: vec![settled],
            messages: vec![envelope],
            ..mailbox::WorkResponse::default()
        };
        let text = serde_json::to_string(&worked).unwrap();
        let worked: Worked<'_> = serde_json::from_str(&text).unwrap();
        assert!(worked.results[0].ok);
        assert_eq!(worked.messages[0].receipt, "r");
    }
}
