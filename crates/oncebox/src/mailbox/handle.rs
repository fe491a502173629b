//! Naming a delivery: by its receipt, or by its message while that is enough.

use std::str::FromStr;

use oncebox_core::{Invalid, Ref};

use super::msg_id::MsgId;
use crate::lease_token::LeaseToken;

/// Names a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Handle {
    /// By its receipt.
    Receipt(LeaseToken),
    /// By its message: enough for the first delivery of a message, and for no other.
    Message(MsgId),
}

impl From<LeaseToken> for Handle {
    fn from(receipt: LeaseToken) -> Self {
        Self::Receipt(receipt)
    }
}

impl From<MsgId> for Handle {
    fn from(id: MsgId) -> Self {
        Self::Message(id)
    }
}

impl Handle {
    /// The message.
    pub(super) fn message(self) -> Ref {
        match self {
            Self::Receipt(token) => Ref::Uid(token.uid),
            Self::Message(id) => id.into(),
        }
    }
}

impl FromStr for Handle {
    type Err = Invalid;

    /// A receipt or the id of a message: they differ in length.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let receipt = text.parse().map(Self::Receipt);
        let handle = receipt.or_else(|_| text.parse().map(Self::Message));
        handle.map_err(|_: Invalid| Invalid::new("delivery", "is neither a receipt nor the id of a message"))
    }
}
