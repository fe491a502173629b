//! The envelope: a received message with its metadata, and the hash chain that seals it.

use bytes::Bytes;
use oncebox_core::ascii::AppendAscii;
use oncebox_core::{Attributes, Delivery, Fingerprint, NewMessage, Seal, Timestamp};

use crate::lease_token::LeaseToken;
use crate::msg_id::MsgId;

/// Initial capacity of the hash input; most messages fit.
const CHAIN_BYTES: usize = 256;

/// A message as delivered to a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Envelope {
    /// The id of the message.
    pub msg_id: MsgId,
    /// The topic that the message was sent to.
    pub topic: String,
    /// When the message was sent, as sealed; the same in every delivery.
    pub ts: Timestamp,
    /// The idempotency key.
    pub idem_key: String,
    /// The payload.
    pub payload: Bytes,
    /// The hash of the payload.
    pub payload_hash: Fingerprint,
    /// The attributes that the message was sent with.
    pub attributes: Attributes,
    /// The correlation id.
    pub corr_id: String,
    /// The shard of the topic that the message is in.
    pub shard: u16,
    /// The number of this delivery, starting at 1.
    pub attempt: u32,
    /// The hash of all fields that do not change between deliveries, as computed when the message was sent; see
    /// [`Envelope::chain`].
    pub hash_chain: Fingerprint,
    /// The receipt, to settle this delivery with.
    pub receipt: LeaseToken,
    /// When the visibility timeout of this delivery ends.
    pub visible_until: Timestamp,
}

impl Envelope {
    /// Checks and unpacks a delivery. `None` if the stored message differs from what was sent: the payload does not
    /// match its hash, or the fields returned by the store do not match the seal.
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

    /// BLAKE3 over topic, ts (as RFC 3339 text), idempotency key, payload hash (as text) and attributes, sorted by
    /// name. Each text is preceded by its length in bytes as a four-byte little-endian integer, and the attributes by
    /// their number in the same form.
    ///
    /// A program that stores an envelope can compare this with [`Envelope::hash_chain`] later to check that it is
    /// unchanged.
    pub fn chain(&self) -> Fingerprint {
        let Self { topic, ts, idem_key, payload_hash, attributes, .. } = self;
        chain(topic, *ts, idem_key, payload_hash, attributes)
    }
}

/// Seals the content of a message at the time it is sent.
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

fn put_ascii(encoded: &mut Vec<u8>, value: &impl AppendAscii) {
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

    /// The code computes the test vectors in the documentation.
    /// Holds: RULE-18.
    #[test]
    fn the_documented_test_vectors_match() {
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
