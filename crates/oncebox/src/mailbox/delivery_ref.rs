//! References to a delivery: by its receipt, or by message id during the first delivery.

use std::str::FromStr;
use std::sync::Arc;

use oncebox_core::{Error, Grant, Invalid, MessageRef, Namespace, Snapshot};

use super::Mailbox;
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

/// What a delivery is about.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeliveredMessage {
    /// A message that is not finished.
    Unfinished {
        /// Its topic.
        topic: Arc<str>,
        /// Its current delivery; none if it is not held.
        receipt: Option<LeaseToken>,
    },
    /// The message is finished or unknown: settling it changes nothing.
    Finished,
    /// It is no message of the mailbox.
    Foreign,
}

impl Mailbox {
    /// The messages of these deliveries, in order.
    pub async fn delivered(&self, deliveries: &[DeliveryRef]) -> Result<Vec<DeliveredMessage>, Error> {
        let refs: Vec<MessageRef> = deliveries.iter().map(|delivery| delivery.message()).collect();
        let found = self.shared.store.get(&refs).await?.into_iter();
        let delivered = found.map(|found| match found {
            Some(found) if found.key.namespace != Namespace::Mailbox => DeliveredMessage::Foreign,
            Some(Snapshot { uid, content: Some(content), grant, .. }) => {
                let receipt = grant.map(|Grant { lease, .. }| LeaseToken {
                    uid,
                    owner: lease.owner,
                    fence: lease.fence,
                });
                DeliveredMessage::Unfinished { topic: content.topic.as_str().into(), receipt }
            }
            Some(_) | None => DeliveredMessage::Finished,
        });
        Ok(delivered.collect())
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
