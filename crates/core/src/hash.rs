//! The two hashes of a message's content: Oncebox's own fingerprint, and a hash that the caller may supply.

use std::fmt;
use std::sync::Arc;

use crate::ascii::{AppendAscii, append_hex, write_hex};
use crate::error::Invalid;
use crate::limits::{HASH_ALGORITHM_BYTES_MAX, HASH_BYTES_MAX};
use crate::payload::Payload;
use crate::text::Topic;

/// Oncebox's own BLAKE3 hash of a message's content. Printed as `b3:` and 64 hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a topic and a payload, for inbox messages and commands.
    pub fn of(topic: &Topic, payload: &Payload) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(topic.as_str().len() as u64).to_le_bytes());
        hasher.update(topic.as_str().as_bytes());
        hasher.update(payload.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }

    /// The fingerprint of these bytes alone: the payload, for mailbox messages.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The fingerprint with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("b3:")?;
        write_hex(f, &self.0)
    }
}

impl AppendAscii for Fingerprint {
    fn append_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(b"b3:");
        append_hex(text, &self.0);
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A hash that the caller computed, with the name of its algorithm. Compared only with one of the same algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CallerHash(Arc<(Box<str>, Box<[u8]>)>);

impl CallerHash {
    /// Accepts the name of an algorithm (such as `sha256`) and 1 to [`HASH_BYTES_MAX`] bytes.
    pub fn new(algorithm: &str, bytes: &[u8]) -> Result<Self, Invalid> {
        if algorithm.is_empty() {
            return Err(Invalid::empty("hash algorithm"));
        }
        if algorithm.len() > HASH_ALGORITHM_BYTES_MAX {
            let given = algorithm.len();
            return Err(Invalid::too_long("hash algorithm", "bytes", HASH_ALGORITHM_BYTES_MAX, given));
        }
        if algorithm.contains('\0') {
            return Err(Invalid::nul("hash algorithm"));
        }
        if bytes.is_empty() {
            return Err(Invalid::empty("hash"));
        }
        if bytes.len() > HASH_BYTES_MAX {
            return Err(Invalid::too_long("hash", "bytes", HASH_BYTES_MAX, bytes.len()));
        }
        Ok(Self(Arc::new((algorithm.into(), bytes.into()))))
    }

    /// The name of the algorithm.
    pub fn algorithm(&self) -> &str {
        &self.0.0
    }

    /// The hash itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0.1
    }

    /// The size of name and hash together.
    pub fn bytes(&self) -> usize {
        self.algorithm().len() + self.as_bytes().len()
    }

    /// Whether the hashes prove that the contents differ: same algorithm, other bytes.
    pub fn contradicts(&self, other: &Self) -> bool {
        self.algorithm() == other.algorithm() && self.as_bytes() != other.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{CallerHash, Fingerprint};
    use crate::payload::Payload;
    use crate::text::Topic;

    #[test]
    fn topic_and_payload_are_hashed_separately() {
        let of = |topic: &'static str, payload: &'static str| {
            Fingerprint::of(&Topic::new(topic).unwrap(), &Payload::new(payload).unwrap())
        };
        assert_ne!(of("ab", "c"), of("a", "bc"));
        assert_eq!(of("a", "b"), of("a", "b"));
    }

    /// The published BLAKE3 value for empty input.
    /// Holds: MBX-I-7, MBX-C-9.
    #[test]
    fn a_fingerprint_prints_as_b3_and_64_hex_digits() {
        assert_eq!(
            Fingerprint::of_bytes(b"").to_string(),
            "b3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }

    /// Holds: RULE-08, RULE-23.
    #[test]
    fn only_hashes_of_the_same_algorithm_contradict() {
        let hash = |algorithm, byte| CallerHash::new(algorithm, &[byte; 32]).unwrap();
        assert!(hash("sha256", 1).contradicts(&hash("sha256", 2)));
        assert!(!hash("sha256", 1).contradicts(&hash("sha256", 1)));
        assert!(!hash("sha256", 1).contradicts(&hash("blake2", 2)));
        assert!(CallerHash::new("sha256", &[]).is_err());
        assert!(CallerHash::new("sha256", &[0; 129]).is_err());
    }
}
