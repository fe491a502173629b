//! Payloads, which are not loaded.

use oncebox_core::{NewMessage, Payload, PayloadHandle};

/// A payload that is already stored, or one that came with this call.
#[derive(Debug, Clone)]
pub enum Body {
    /// Stored: neither the payload nor its attributes are loaded.
    Stored {
        /// The size of the payload.
        bytes: u32,
    },
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

/// A message of this call, as the machine takes it.
pub fn with_body(message: &NewMessage) -> NewMessage<Body> {
    message.clone().with_payload(Body::New)
}
