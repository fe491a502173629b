//! References to a delivery: by its receipt, or by message id during the first delivery.

use std::str::FromStr;

use oncebox_core::{Invalid, MessageRef};

use crate::lease_token::LeaseToken;
use crate::msg_id::MsgId;

/// Identifies a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveryRef {
    /// By its receipt.
    Receipt(LeaseToken),
    /// By its message id, which identifies only the first delivery of a message. Later deliveries require the receipt.
    Message(MsgId),
}

impl From<LeaseToken> for DeliveryRef {
    fn from(receipt: LeaseToken) -> Self {
        Self::Receipt(receipt)
    }
}

impl From<MsgId> for DeliveryRef {
    fn from(id: MsgId) -> Self {
        Self::Message(id)
    }
}

impl DeliveryRef {
    /// The message that was delivered.
    pub(super) fn message(self) -> MessageRef {
        match self {
            Self::Receipt(token) => MessageRef::Uid(token.uid),
            Self::Message(id) => id.into(),
        }
    }
}

impl FromStr for DeliveryRef {
    type Err = Invalid;

    /// Parses a receipt or a message id; they differ in length.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let receipt = text.parse().map(Self::Receipt);
        let delivery = receipt.or_else(|_| text.parse().map(Self::Message));
        delivery.map_err(|_: Invalid| Invalid::new("delivery", "is neither a receipt nor a message id"))
    }
}
