//! What whoever schedules a command is told.

use oncebox_core::{Accepted, Error, Kind, Timestamp, Trace, Uid};

use super::contract::Contract;

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// It is stored.
    Accepted,
    /// It came before; the first one stays as it is.
    AlreadyAccepted,
    /// Its key came before with another contract or payload, and the call was strict; the first one stays as it is.
    Conflict,
}

/// What is known of the stored command: of the first one, if it came before.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receipt {
    /// What became of the submission.
    pub outcome: Outcome,
    /// The identity of the stored command.
    pub command_id: Uid,
    /// What it is stored under.
    pub contract: Contract,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Until when its key is known, at least.
    pub dedup_until: Timestamp,
    /// Its correlation, causation and tenant ids.
    pub trace: Trace,
}

impl Receipt {
    /// `contract` is the stored command's.
    pub(super) fn of(accepted: Accepted, contract: Contract) -> Result<Self, Error> {
        let (outcome, receipt) = match accepted {
            Accepted::New { receipt, .. } => (Outcome::Accepted, receipt),
            Accepted::Duplicate { receipt, .. } | Accepted::Replaced(receipt) => {
                (Outcome::AlreadyAccepted, receipt)
            }
            Accepted::Conflict(receipt) => (Outcome::Conflict, receipt),
            Accepted::Saturated { retry_after, bound } => return Err(Error::saturated(retry_after, bound)),
            _ => {
                let text = "the command id belongs to another command: give each its own, or none";
                return Err(Error::new(Kind::Invalid, text));
            }
        };
        let oncebox_core::Receipt { uid, accepted_at, dedup_until, trace, .. } = receipt;
        Ok(Self { outcome, command_id: uid, contract, accepted_at, dedup_until, trace })
    }
}
