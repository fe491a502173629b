//! The record and status of a stored command.

use std::fmt;

use bytes::Bytes;
use oncebox_core::{DeadReason, LastError, Lease, MessageState, Namespace, Snapshot, Timestamp, Trace, Uid};

use super::contract::Contract;
use super::schedule;

/// The status of a stored command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandStatus {
    /// Waiting to be run.
    Pending,
    /// Leased by a processor.
    Running,
    /// The handlers have succeeded.
    Completed,
    /// The last attempt failed, and the command will be retried.
    Failed {
        /// The number of the failed attempt, starting at 1.
        attempt: u32,
        /// When the command is retried; `None` means at once.
        next: Option<Timestamp>,
    },
    /// The command is a dead letter and waits for an operator.
    DeadLettered {
        /// Why the command was dead-lettered.
        reason: DeadReason,
    },
}

impl CommandStatus {
    /// The status of a command; `None` if the message is not a command.
    pub(super) fn of(found: &Snapshot) -> Option<Self> {
        if found.key.namespace != Namespace::Commands {
            return None;
        }
        Some(match found.state {
            MessageState::Done => Self::Completed,
            MessageState::Dead => Self::DeadLettered { reason: found.dead.unwrap_or(DeadReason::Failed) },
            _ if found.lease().is_some() => Self::Running,
            _ if found.attempts > 0 => Self::Failed { attempt: found.deliveries, next: found.retry_at },
            _ => Self::Pending,
        })
    }
}

/// A stored command. `Debug` output leaves out the payload and the idempotency key.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandRecord {
    /// The id of the command.
    pub command_id: Uid,
    /// The name and version of its contract.
    pub contract: Contract,
    /// The serialized command, exactly as stored.
    pub payload: Bytes,
    /// When the command was accepted.
    pub created_at: Timestamp,
    /// The command does not run before this time: the time it was scheduled for or, after a failure, the time of the
    /// next attempt.
    pub visible_after: Option<Timestamp>,
    /// The number of attempts, including the current one.
    pub attempts: u32,
    /// The status of the command.
    pub status: CommandStatus,
    /// The idempotency key, if the command was scheduled with one.
    pub idempotency_key: Option<String>,
    /// The current lease: its owner, and its end unless extended.
    pub lease: Option<Lease>,
    /// The error of the last failed attempt.
    pub last_error: Option<LastError>,
    /// The correlation, causation and tenant ids.
    pub trace: Trace,
}

impl CommandRecord {
    /// The record of a command; `None` if the message is not a command.
    pub(super) fn of(found: Snapshot) -> Option<Self> {
        let status = CommandStatus::of(&found)?;
        let lease = found.lease().copied();
        let content = found.content?;
        Some(Self {
            command_id: found.uid,
            contract: Contract::from_topic(content.topic.as_str())?,
            payload: content.payload.into_bytes(),
            created_at: found.accepted_at,
            visible_after: found.retry_at.or(content.due),
            attempts: found.deliveries,
            status,
            idempotency_key: schedule::idempotency_key(&found.key.id).map(str::to_owned),
            lease,
            last_error: found.last_error,
            trace: found.trace,
        })
    }
}

impl fmt::Debug for CommandRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandRecord")
            .field("command_id", &self.command_id)
            .field("contract", &self.contract)
            .field("payload_bytes", &self.payload.len())
            .field("attempts", &self.attempts)
            .field("status", &self.status)
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}
