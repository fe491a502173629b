//! The receipt of a scheduled command.

use oncebox_core::{Accepted, Error, ErrorKind, Timestamp, Trace, Uid};

use super::contract::Contract;

/// The outcome of scheduling a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ScheduleOutcome {
    /// The command is new and stored.
    Accepted,
    /// A duplicate: the command was scheduled before. The first one is unchanged.
    AlreadyAccepted,
    /// The key was used before with another contract or payload, and the call was strict. The first command is
    /// unchanged.
    Conflict,
}

/// The receipt for a scheduled command. For a duplicate or a conflict it describes the first command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleReceipt {
    /// The outcome of the call.
    pub outcome: ScheduleOutcome,
    /// The id of the stored command.
    pub command_id: Uid,
    /// The contract of the stored command.
    pub contract: Contract,
    /// When the command was accepted.
    pub accepted_at: Timestamp,
    /// The earliest end of the deduplication window of its key.
    pub dedup_until: Timestamp,
    /// The correlation, causation and tenant ids.
    pub trace: Trace,
}

impl ScheduleReceipt {
    /// `contract` is the contract of the stored command.
    pub(super) fn of(accepted: Accepted, contract: Contract) -> Result<Self, Error> {
        let (outcome, summary) = match accepted {
            Accepted::New { summary, .. } => (ScheduleOutcome::Accepted, summary),
            Accepted::Duplicate { summary, .. } | Accepted::Replaced(summary) => {
                (ScheduleOutcome::AlreadyAccepted, summary)
            }
            Accepted::Conflict(summary) => (ScheduleOutcome::Conflict, summary),
            Accepted::Saturated { retry_after, bound } => return Err(Error::saturated(retry_after, bound)),
            _ => {
                let text = "the command id belongs to another command: use a new id, or none";
                return Err(Error::new(ErrorKind::Invalid, text));
            }
        };
        let oncebox_core::MessageSummary { uid, accepted_at, dedup_until, trace, .. } = summary;
        Ok(Self { outcome, command_id: uid, contract, accepted_at, dedup_until, trace })
    }
}
