//! The payload as the slow path knows it.

use oncebox_core::{NewMessage, Payload, PayloadHandle};

/// A payload that is stored already and stays there, or one that came with this call.
#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// It stays where it is; the attributes beside it do too, and are not loaded either.
    Stored { bytes: u32 },
    /// It is written if its message is.
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

/// A message that came with this call, without a bound on its lane: the caller has checked that.
pub(crate) fn with_body(message: &NewMessage) -> NewMessage<Body> {
    NewMessage { lane_max: None, ..message.clone().with_payload(Body::New) }
}
