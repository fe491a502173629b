//! Payloads: the bytes of a message, which only its sender and its handler interpret.

use std::fmt;

use bytes::Bytes;

use crate::error::Invalid;
use crate::limits::PAYLOAD_BYTES_MAX;

/// The bytes of a message, cheap to clone. They never show up in `Debug` output.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Payload(Bytes);

impl Payload {
    /// Accepts up to [`PAYLOAD_BYTES_MAX`] bytes, including none (IBX-019).
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, Invalid> {
        let bytes = bytes.into();
        if bytes.len() > PAYLOAD_BYTES_MAX {
            return Err(Invalid::too_long("payload", "bytes", PAYLOAD_BYTES_MAX, bytes.len()));
        }
        Ok(Self(bytes))
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes as a shared buffer.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl PayloadHandle for Payload {
    fn bytes(&self) -> u32 {
        u32::try_from(self.0.len()).expect("a payload is at most 64 MiB")
    }
}

/// Stands in for a payload where its bytes are not needed. Cheap to clone.
pub trait PayloadHandle: Clone {
    /// The number of bytes of the payload.
    fn bytes(&self) -> u32;
}

/// A payload that was left out; only its size is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Omitted {
    /// The number of bytes of the payload.
    pub bytes: u32,
}

impl PayloadHandle for Omitted {
    fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::Payload;
    use crate::limits::PAYLOAD_BYTES_MAX;

    /// Holds: IBX-019, IBX-022, IBX-127.
    #[test]
    fn any_bytes_are_a_payload_and_debug_hides_them() {
        assert!(Payload::new(Vec::new()).unwrap().is_empty());
        let secret = Payload::new(b"\xff\x00secret".to_vec()).unwrap();
        assert_eq!(secret.as_bytes(), b"\xff\x00secret");
        assert_eq!(format!("{secret:?}"), "Payload(8 bytes)");
    }

    /// Holds: RULE-19, IBX-118.
    #[test]
    fn a_payload_over_the_limit_is_refused_with_its_length() {
        let error = Payload::new(vec![0; PAYLOAD_BYTES_MAX + 1]).unwrap_err();
        assert_eq!(error.to_string(), "payload is 67108865 bytes long, the limit is 67108864");
    }
}
