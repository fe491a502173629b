//! Senders: new messages, and repeats on purpose, one by one or in batches.

use std::time::Duration;

use oncebox_audit::server::payload;
use serde_json::{Value, json};

use super::desk::{Desk, Role, text};
use crate::Failure;
use crate::clock::pause;

/// So many unfinished messages are enough: senders wait for receivers.
const UNFINISHED_MAX: u64 = 1_500;
const BATCH_MAX: u64 = 20;
const PARTITIONS: u64 = 12;

pub(super) struct Sender {
    number: u64,
    count: u64,
    /// Messages in one call, at most.
    batch: u64,
}

/// One message on its way.
struct Parcel {
    key: String,
    /// Whether an earlier send of it was answered.
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

    /// A new message, or one that somebody has sent before.
    fn parcel(&mut self, desk: &mut Desk<'_>) -> Parcel {
        let repeat = desk.below(100) < 25;
        let number = desk.below(u64::MAX);
        let earlier = if repeat { desk.book().messages.any_key(number) } else { None };
        let (key, partition) = earlier.unwrap_or_else(|| {
            self.count += 1;
            let key = format!("s{}-{}", self.number, self.count);
            // Partitions of one name in several topics are several.
            let name = format!("{}-{}", Desk::topic_of(&key), desk.below(PARTITIONS));
            (key, (desk.below(100) < 30).then_some(name))
        });
        let topic = Desk::topic_of(&key);
        let mut json =
            json!({ "topic": topic, "idem_key": key, "payload_b64": base64(payload(&key).as_bytes()) });
        if let Some(partition) = &partition {
            json["partition"] = Value::from(partition.as_str());
        }
        let known = desk.book().messages.asks_send(&key, partition.as_deref());
        Parcel { key, known, json }
    }

    fn send_one(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let parcel = self.parcel(desk);
        let answer = desk.post("/v1/send", &parcel.json, &[])?;
        if answer.status == 200 { record(desk, &parcel, &answer.body) } else { Ok(()) }
    }

    fn send_batch(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let count = 1 + desk.below(self.batch);
        let parcels: Vec<_> = (0..count).map(|_| self.parcel(desk)).collect();
        let messages: Vec<_> = parcels.iter().map(|parcel| parcel.json.clone()).collect();
        let answer = desk.post("/v1/send/batch", &json!({ "messages": messages }), &[])?;
        if answer.status != 200 {
            return Ok(());
        }
        let results = answer.body["results"].as_array().ok_or("a batch without results")?;
        if results.len() != parcels.len() {
            return Err(format!("{} messages, {} results", parcels.len(), results.len()).into());
        }
        for (parcel, result) in parcels.iter().zip(results) {
            match (result["ok"].as_bool(), result["code"].as_str()) {
                (Some(true), _) => record(desk, parcel, result)?,
                (_, Some("E_SATURATED")) => {}
                _ => return Err(format!("a message of a batch was refused: {result}").into()),
            }
        }
        Ok(())
    }
}

impl Role for Sender {
    fn step(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        if desk.book().messages.unfinished() > UNFINISHED_MAX {
            pause(Duration::from_millis(5));
        } else if self.batch > 1 {
            self.send_batch(desk)?;
        } else {
            self.send_one(desk)?;
        }
        Ok(())
    }
}

fn record(desk: &Desk<'_>, parcel: &Parcel, answer: &Value) -> Result<(), Failure> {
    let duplicate = answer["duplicate"].as_bool().ok_or("an answer without `duplicate`")?;
    let msg_id = text(answer, "msg_id")?;
    desk.book().messages.sent(&parcel.key, parcel.known, msg_id, duplicate)?;
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

/// The bytes of a base64 text; none if it is not one.
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
    fn base64_there_and_back() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).unwrap(), bytes.as_bytes());
        }
        assert_eq!(from_base64("Z!=="), None);
    }
}
