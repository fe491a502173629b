//! Senders of new messages and deliberate repeats, one by one or in batches.

use std::time::Duration;

use oncebox_audit::server::payload;
use serde_json::{Value, json};

use super::client::{Actor, TestClient, text};
use crate::Failure;
use crate::clock::pause;

/// Senders wait while there are more unfinished messages than this.
const UNFINISHED_MAX: u64 = 1_500;
const BATCH_MAX: u64 = 20;
const PARTITIONS: u64 = 12;

pub(super) struct Sender {
    number: u64,
    count: u64,
    /// Maximum number of messages in one call.
    batch: u64,
}

/// A message that is about to be sent.
struct PendingSend {
    key: String,
    /// Whether an earlier send of it got a response.
    known: bool,
    json: Value,
}

impl Sender {
    pub(super) fn single(number: u64) -> Self {
        Self { number, count: 0, batch: 1 }
    }

    pub(super) fn batches(number: u64) -> Self {
        Self { batch: BATCH_MAX, ..Self::single(number) }
    }

    /// A new message, or one that a sender has sent before.
    fn next_send(&mut self, client: &mut TestClient<'_>) -> PendingSend {
        let repeat = client.below(100) < 25;
        let number = client.below(u64::MAX);
        let earlier = if repeat { client.history().messages.any_key(number) } else { None };
        let (key, partition) = earlier.unwrap_or_else(|| {
            self.count += 1;
            let key = format!("s{}-{}", self.number, self.count);
            // A partition spans topics: the topic is part of the name, so that topics do not wait for each other.
            let name = format!("{}-{}", TestClient::topic_of(&key), client.below(PARTITIONS));
            (key, (client.below(100) < 30).then_some(name))
        });
        let topic = TestClient::topic_of(&key);
        let mut json =
            json!({ "topic": topic, "idem_key": key, "payload_b64": base64(payload(&key).as_bytes()) });
        if let Some(partition) = &partition {
            json["partition"] = Value::from(partition.as_str());
        }
        let known = client.history().messages.before_send(&key, partition.as_deref());
        PendingSend { key, known, json }
    }

    fn send_one(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let send = self.next_send(client);
        let response = client.post("/v1/send", &send.json, &[])?;
        if response.status == 200 { record(client, &send, &response.body) } else { Ok(()) }
    }

    fn send_batch(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let count = 1 + client.below(self.batch);
        let sends: Vec<_> = (0..count).map(|_| self.next_send(client)).collect();
        let messages: Vec<_> = sends.iter().map(|send| send.json.clone()).collect();
        let response = client.post("/v1/queues/mailbox/send", &json!({ "messages": messages }), &[])?;
        if response.status != 200 {
            return Ok(());
        }
        let results = response.body["results"].as_array().ok_or("the batch response has no results")?;
        if results.len() != sends.len() {
            return Err(format!("{} messages, {} results", sends.len(), results.len()).into());
        }
        for (send, result) in sends.iter().zip(results) {
            match (result["ok"].as_bool(), result["code"].as_str()) {
                (Some(true), _) => record(client, send, result)?,
                (_, Some("E_SATURATED")) => {}
                _ => return Err(format!("a message of a batch was rejected: {result}").into()),
            }
        }
        Ok(())
    }
}

impl Actor for Sender {
    fn step(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        if client.history().messages.unfinished() > UNFINISHED_MAX {
            pause(Duration::from_millis(5));
        } else if self.batch > 1 {
            self.send_batch(client)?;
        } else {
            self.send_one(client)?;
        }
        Ok(())
    }
}

fn record(client: &TestClient<'_>, send: &PendingSend, response: &Value) -> Result<(), Failure> {
    let duplicate = response["duplicate"].as_bool().ok_or("the response has no `duplicate`")?;
    let msg_id = text(response, "msg_id")?;
    client.history().messages.after_send(&send.key, send.known, msg_id, duplicate)?;
    Ok(())
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(if digit > group.len() { '=' } else { char::from(ALPHABET[index as usize]) });
        }
    }
    text
}

/// Decodes base64; none if it is invalid.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for group in text.as_bytes().chunks(4) {
        let digits = group.iter().filter(|digit| **digit != b'=').count();
        let mut bits = 0;
        for at in 0..4 {
            let digit = group.get(at).filter(|_| at < digits);
            let value = digit.map_or(Some(0), |digit| ALPHABET.iter().position(|known| known == digit))?;
            bits = bits << 6 | value;
        }
        let three = [bits >> 16, bits >> 8, bits].map(|byte| u8::try_from(byte & 255).unwrap_or_default());
        bytes.extend_from_slice(three.get(..digits.checked_sub(1)?)?);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::{base64, from_base64};

    #[test]
    fn base64_round_trip() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("Z!=="), None);
    }
}
