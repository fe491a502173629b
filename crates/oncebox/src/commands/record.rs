//! A stored command, and where it stands.

use std::fmt;

use bytes::Bytes;
use oncebox_core::{DeadReason, LastError, Lease, Namespace, Snapshot, State, Timestamp, Trace, Uid};

use super::contract::Contract;
use super::schedule;

/// Where a stored command stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// It waits to be run.
    Pending,
    /// A processor runs it.
    Running,
    /// Its handlers have succeeded.
    Completed,
    /// It has failed, and is run again.
    Failed {
        /// Which run that was, from 1.
        attempt: u32,
        /// When it is run again; none means at once.
        next: Option<Timestamp>,
    },
    /// It was given up, for an operator to look at.
    DeadLettered {
        /// Why.
        reason: DeadReason,
    },
}

impl Status {
    /// The status of a command; none if this is none.
    pub(super) fn of(found: &Snapshot) -> Option<Self> {
        if found.key.namespace != Namespace::Commands {
            return None;
        }
        Some(match found.state {
            State::Done => Self::Completed,
            State::Dead => Self::DeadLettered { reason: found.dead.unwrap_or(DeadReason::Failed) },
            _ if found.lease().is_some() => Self::Running,
            _ if found.attempts > 0 => Self::Failed { attempt: found.deliveries, next: found.retry_at },
            _ => Self::Pending,
        })
    }
}

/// Everything that is stored of a command. The payload and the idempotency key stay out of `Debug` output.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// Its identity.
    pub command_id: Uid,
    /// Its contract's name and version.
    pub contract: Contract,
    /// The command as it was written, byte by byte.
    pub payload: Bytes,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// Not run before this moment: the one that it was scheduled for or, once it has failed, that of its next run.
    pub visible_after: Option<Timestamp>,
    /// How often it was run, the present run included.
    pub attempts: u32,
    /// Where it stands.
    pub status: Status,
    /// What makes another submission the same.
    pub idempotency_key: Option<String>,
    /// Who runs it, and until when unless that is extended.
    pub lease: Option<Lease>,
    /// Why its last run failed.
    pub last_error: Option<LastError>,
    /// Its correlation, causation and tenant ids.
    pub trace: Trace,
}

impl Record {
    /// The record of a command; none if this is none.
    pub(super) fn of(found: Snapshot) -> Option<Self> {
        let status = Status::of(&found)?;
        let lease = found.lease().copied();
        let content = found.content?;
        Some(Self {
            command_id: found.uid,
            contract: Contract::of_topic(content.topic.as_str())?,
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

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("command_id", &self.command_id)
            .field("contract", &self.contract)
            .field("payload_bytes", &self.payload.len())
            .field("attempts", &self.attempts)
            .field("status", &self.status)
            .field("trace", &self.trace)
            .finish_non_exhaustive()
    }
}
