//! Payloads on the slow path.

use oncebox_core::{NewMessage, Payload, PayloadHandle};

/// A payload that is already stored, or one that came with this call.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// Stored: neither the payload nor its attributes are loaded.
    Stored { bytes: u32 },
    /// New: written if its message is.
    New(Payload),
}

impl PayloadHandle for Body {
    fn bytes(&self) -> u32 {
        match self {
            Self::Stored { bytes } => *bytes,
            Self::New(payload) => payload.bytes(),
        }
    }
}

/// A message of this call without the limit on its lane, which the caller has checked.
pub(crate) fn with_body(message: &NewMessage) -> NewMessage<Body> {
    NewMessage { lane_max: None, ..message.clone().with_payload(Body::New) }
}
