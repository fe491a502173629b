//! Generates messages as a server would: every string and payload has its own allocation.

use std::time::Duration;

use oncebox_core::{Hold, Keep, Key, NewMessage, Payload, Topic};

/// Generates messages with payloads of one size and unique ids.
pub(crate) struct Messages {
    payload_bytes: usize,
    made: u64,
}

impl Messages {
    pub(crate) fn new(payload_bytes: usize) -> Self {
        Self { payload_bytes, made: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Vec<NewMessage> {
        (0..count).map(|_| self.next()).collect()
    }

    fn next(&mut self) -> NewMessage {
        self.made += 1;
        // Ids are not in order, like those of webhooks.
        let id = format!("evt_{:016x}", self.made.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let key = Key::inbox("payments", id).expect("a short key");
        let topic = Topic::new("payment.received").expect("a short topic");
        let payload = Payload::new(vec![b'x'; self.payload_bytes]).expect("a small payload");
        // The first clone makes the buffer shareable; that cost must not count for either side.
        drop(payload.clone());
        let mut message = NewMessage::new(key, topic, payload);
        message.policy.hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::ZERO) };
        message
    }
}
