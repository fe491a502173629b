//! An envelope: what is received.

use bytes::Bytes;
use oncebox_core::digits::Ascii;
use oncebox_core::{Attributes, Delivery, Fingerprint, NewMessage, Seal, Timestamp};

use super::msg_id::MsgId;
use crate::lease_token::LeaseToken;

/// What a chain is made of, in most cases.
const CHAIN_BYTES: usize = 256;

/// A message in a receiver's hands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The identity of the message.
    pub msg_id: MsgId,
    /// What it was sent to.
    pub topic: String,
    /// When it was sent, as it was sealed; the same in every delivery.
    pub ts: Timestamp,
    /// Its idempotency key.
    pub idem_key: String,
    /// What it carries.
    pub payload: Bytes,
    /// The hash of the payload.
    pub payload_hash: Fingerprint,
    /// Names and values beside the payload.
    pub attributes: Attributes,
    /// What ties it to what it belongs to.
    pub corr_id: String,
    /// The slice of the topic that it came through.
    pub shard: u16,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// The hash of everything that does not change between deliveries, as it was computed when the message was sent; see
    /// [`Envelope::chain`].
    pub hash_chain: Fingerprint,
    /// What to acknowledge this delivery with.
    pub receipt: LeaseToken,
    /// Until when it is held.
    pub visible_until: Timestamp,
}

impl Envelope {
    /// None if the message is not what was sent: its payload does not match its hash, or what the store returned does not match
    /// the seal.
    pub(super) fn open(delivery: &Delivery) -> Option<Self> {
        let content = &delivery.content;
        let seal = content.seal?;
        let payload_hash = Fingerprint::of_bytes(content.payload.as_bytes());
        if payload_hash != delivery.fingerprint {
            return None;
        }
        let envelope = Self {
            msg_id: delivery.uid.into(),
            topic: content.topic.to_string(),
            ts: seal.at,
            idem_key: delivery.key.id.to_string(),
            payload: content.payload.clone().into_bytes(),
            payload_hash,
            attributes: content.attributes.clone(),
            corr_id: delivery.trace.correlation().unwrap_or_default().to_owned(),
            shard: content.shard.0,
            attempt: delivery.deliveries,
            hash_chain: seal.chain,
            receipt: LeaseToken::of(delivery),
            visible_until: delivery.lease.until,
        };
        (envelope.chain() == envelope.hash_chain).then_some(envelope)
    }

    /// BLAKE3 over topic, ts (as RFC 3339 text), idempotency key, payload hash (as text) and attributes, sorted by name: each text
    /// with its length in bytes before it, as four bytes, the smallest first; before the attributes their number.
    ///
    /// Whoever keeps an envelope can tell later whether it is still what was sent.
    pub fn chain(&self) -> Fingerprint {
        let Self { topic, ts, idem_key, payload_hash, attributes, .. } = self;
        chain(topic, *ts, idem_key, payload_hash, attributes)
    }
}

/// Freezes what a message says, at the moment it is sent.
pub(super) fn seal(message: &NewMessage, at: Timestamp) -> Seal {
    let (topic, idem_key) = (message.content.topic.as_str(), message.key.id.as_str());
    Seal { at, chain: chain(topic, at, idem_key, &message.fingerprint, &message.content.attributes) }
}

fn chain(
    topic: &str,
    ts: Timestamp,
    idem_key: &str,
    payload_hash: &Fingerprint,
    attributes: &Attributes,
) -> Fingerprint {
    let mut encoded = Vec::with_capacity(CHAIN_BYTES);
    put_text(&mut encoded, topic);
    put_ascii(&mut encoded, &ts);
    put_text(&mut encoded, idem_key);
    put_ascii(&mut encoded, payload_hash);
    put_number(&mut encoded, attributes.iter().count());
    for (name, value) in attributes.iter() {
        put_text(&mut encoded, name);
        put_text(&mut encoded, value);
    }
    Fingerprint::of_bytes(&encoded)
}

fn put_number(encoded: &mut Vec<u8>, number: usize) {
    encoded.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn put_ascii(encoded: &mut Vec<u8>, value: &impl Ascii) {
    let start = encoded.len();
    put_number(encoded, 0);
    value.append_to(encoded);
    let length = u32::try_from(encoded.len() - start - 4).unwrap_or(u32::MAX);
    encoded[start..start + 4].copy_from_slice(&length.to_le_bytes());
}

fn put_text(encoded: &mut Vec<u8>, text: &str) {
    put_number(encoded, text.len());
    encoded.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Attributes, Fence, Fingerprint, Owner, Timestamp, Uid};

    use super::{Envelope, LeaseToken};

    /// The published vectors are what the code computes.
    /// Holds: RULE-18.
    #[test]
    fn the_published_vectors_hold() {
        let page = include_str!("../../../../docs/reference/hash-chain.md");
        let uid = Uid::from_u128(1);
        let (owner, fence) = (Owner::new(1).unwrap(), Fence::new(1).unwrap());
        for (topic, idem_key, payload, attributes) in
            [("orders", "k-1", "hello", vec![("b", "2"), ("a", "1")]), ("größe", "k:2", "", Vec::new())]
        {
            let payload_hash = Fingerprint::of_bytes(payload.as_bytes());
            let envelope = Envelope {
                msg_id: uid.into(),
                topic: topic.to_owned(),
                ts: Timestamp::from_millis(1_767_225_600_123),
                idem_key: idem_key.to_owned(),
                payload: payload.into(),
                payload_hash,
                attributes: Attributes::new(attributes).unwrap(),
                corr_id: String::new(),
                shard: 0,
                attempt: 1,
                hash_chain: payload_hash,
                receipt: LeaseToken { uid, owner, fence },
                visible_until: Timestamp::EPOCH,
            };
            assert!(page.contains(&format!("`{payload_hash}`")), "{payload_hash}");
            assert!(page.contains(&format!("`{}`", envelope.chain())), "{}", envelope.chain());
        }
    }
}
