//! Verdicts on the deliveries of a message, and their outcomes.

use crate::annotation::LastError;
use crate::message::DeadReason;
use crate::time::{Span, Timestamp};

/// The result of processing a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// Processed: the message becomes Done.
    Ack,
    /// Failed temporarily: spends an attempt; Dead if that was the last one, or if the message has expired (then no
    /// attempt is spent).
    Abandon {
        /// How long the message is not claimable.
        delay: Span,
        /// The error to record; none keeps the earlier one.
        error: Option<LastError>,
    },
    /// Failed permanently: the message becomes Dead. Spends no attempt.
    Fail {
        /// The reason to record.
        reason: DeadReason,
        /// The error to record; none keeps the earlier one.
        error: Option<LastError>,
    },
    /// Not attempted: ready again at once, no attempt spent; Dead if the message has expired. A key without content
    /// only loses its lease.
    Release,
}

impl Verdict {
    /// Its kind.
    pub fn kind(&self) -> VerdictKind {
        match self {
            Self::Ack => VerdictKind::Ack,
            Self::Abandon { .. } => VerdictKind::Abandon,
            Self::Fail { .. } => VerdictKind::Fail,
            Self::Release => VerdictKind::Release,
        }
    }
}

/// A [`Verdict`] without its details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum VerdictKind {
    /// [`Verdict::Ack`].
    Ack,
    /// [`Verdict::Abandon`].
    Abandon,
    /// [`Verdict::Fail`].
    Fail,
    /// [`Verdict::Release`].
    Release,
}

/// The outcome of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Settled {
    /// The message is Done.
    Done,
    /// The content was replaced during the lease. Whatever the verdict (except a release), the lease has ended, no
    /// attempt was spent, and the newer content is ready at once.
    Superseded,
    /// The message will be redelivered.
    Retrying {
        /// Not before this moment.
        at: Timestamp,
    },
    /// The message is ready again, or the key is no longer leased.
    Released,
    /// The message is Dead.
    Dead {
        /// Why.
        reason: DeadReason,
    },
    /// The lease is not current, or never existed; nothing changed.
    LeaseLost,
}
