//! The mailbox's requests, written into one buffer, and as much of its answers as a load needs.

use std::fmt::Write;

use oncebox_wire::Base64;
use serde::Deserialize;

use super::Key;
use crate::server::job::PAYLOAD_BYTES;

const TOPIC: &str = "bench";
/// Nothing comes twice in a run.
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

/// The answer to a wish for messages, to acknowledgements, or to both.
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

pub(super) struct Shapes {
    batch: usize,
    /// The payload as JSON carries it, with its quotes.
    payload: String,
    buffer: String,
}

impl Shapes {
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
        written.expect("a text takes all");
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
        self.buffer.write_fmt(text).expect("a text takes all");
    }
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox;

    use super::{Key, Shapes, Worked};

    /// What is written by hand is what the wire says; a field that it does not know would be refused.
    #[test]
    fn requests_are_those_of_the_wire() {
        let mut shapes = Shapes::new(100);
        let key = |number| Key { run: 1, number };
        let one: mailbox::Send = serde_json::from_slice(shapes.send(key(7))).unwrap();
        assert_eq!((one.idem_key, one.payload_b64.0.len()), (key(7).to_string(), 256));
        let many: mailbox::SendBatch = serde_json::from_slice(shapes.send_batch(&[key(1), key(2)])).unwrap();
        assert_eq!(many.messages.len(), 2);
        let recv: mailbox::Recv = serde_json::from_slice(shapes.recv()).unwrap();
        assert_eq!((recv.max_messages, recv.wait_ms), (Some(100), None));
        let receipts = ["a".to_owned(), "b".to_owned()];
        let settle: mailbox::Settle = serde_json::from_slice(shapes.settle(&receipts)).unwrap();
        assert_eq!(settle.settle[1].delivery, "b");
        let work: mailbox::Work = serde_json::from_slice(shapes.work(&[], Some(9))).unwrap();
        assert_eq!((work.settle.len(), work.recv.wait_ms), (0, Some(9)));
    }

    #[test]
    fn of_an_answer_the_needed_fields_are_read() {
        let envelope = mailbox::Envelope { receipt: "r".to_owned(), ..Default::default() };
        let settled = mailbox::Settled { ok: true, ..Default::default() };
        let worked =
            mailbox::Worked { results: vec![settled], messages: vec![envelope], damaged: Vec::new() };
        let text = serde_json::to_string(&worked).unwrap();
        let worked: Worked<'_> = serde_json::from_str(&text).unwrap();
        assert!(worked.results[0].ok);
        assert_eq!(worked.messages[0].receipt, "r");
    }
}
