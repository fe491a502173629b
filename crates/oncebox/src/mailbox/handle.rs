//! Naming a delivery: by its receipt, or by its message while that is enough.

use oncebox_core::{Error, Ref, StoreExt};

use super::Mailbox;
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

/// What became of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It counts.
    Ok,
    /// The delivery is not held any more, or never was; nothing changed.
    LeaseLost,
    /// The message was delivered more than once: only the receipt tells which delivery is meant.
    ReceiptRequired,
}

/// A delivery, and which one of its message it is.
pub(super) struct Held {
    pub(super) token: LeaseToken,
    pub(super) deliveries: u32,
}

impl Mailbox {
    /// The delivery that is meant, if that is clear.
    pub(super) async fn resolve(&self, handle: Handle) -> Result<Result<Held, Outcome>, Error> {
        let uid = match handle {
            Handle::Receipt(token) => token.uid,
            Handle::Message(id) => id.uid(),
        };
        let found = self.shared.store.get_one(&Ref::Uid(uid)).await?;
        let found = found.filter(|found| found.key.namespace == oncebox_core::Namespace::Mailbox);
        let Some(found) = found else { return Ok(Err(Outcome::LeaseLost)) };
        let deliveries = found.deliveries;
        let token = match (handle, found.grant) {
            (Handle::Receipt(token), _) => token,
            (Handle::Message(_), _) if deliveries > 1 => return Ok(Err(Outcome::ReceiptRequired)),
            (Handle::Message(_), Some(grant)) => {
                LeaseToken { uid, owner: grant.lease.owner, fence: grant.lease.fence }
            }
            (Handle::Message(_), None) => return Ok(Err(Outcome::LeaseLost)),
        };
        Ok(Ok(Held { token, deliveries }))
    }
}
