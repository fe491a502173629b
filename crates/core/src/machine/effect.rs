//! Effects: what an operation changed, with enough detail to apply it again without making decisions.

use std::num::NonZeroU32;

use super::record_table::RecordJournal;
use crate::annotation::LastError;
use crate::hash::CallerHash;
use crate::id::{Number, RequestId, Uid};
use crate::key::Key;
use crate::message::{DeadReason, Hold, Lease, MessageState, NewMessage, Settled, Snapshot, VerdictKind};
use crate::payload::Payload;
use crate::port::AttemptCount;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// One change of one message.
#[derive(Debug)]
pub enum Effect<'a, P = Payload> {
    /// A new message, Processing.
    Accepted {
        /// Its number.
        number: Number,
        /// The accepted message.
        message: &'a NewMessage<P>,
    },
    /// A new message without content.
    Recorded {
        /// Its number.
        number: Number,
        /// Its key.
        key: &'a Key,
        /// How long its key is held.
        hold: Hold,
        /// The caller's hash.
        hash: Option<&'a CallerHash>,
        /// Seen or Done.
        state: MessageState,
    },
    /// The whole message in its current state, restored from a snapshot.
    Restored(&'a Snapshot<P>),
    /// Its key was observed again.
    Observed {
        /// The caller's hash, if it is to be stored.
        hash: Option<&'a CallerHash>,
    },
    /// The message got its first content.
    Filled {
        /// Its new number.
        number: Number,
        /// The accepted message.
        message: &'a NewMessage<P>,
    },
    /// Newer content replaced the older.
    Replaced {
        /// The accepted message.
        message: &'a NewMessage<P>,
        /// The content differs.
        diverged: bool,
    },
    /// A lease was granted.
    Granted {
        /// The lease.
        lease: Lease,
        /// Extensions cannot go beyond this moment.
        extendable_until: Timestamp,
        /// The claim call that it was granted to.
        request: Option<RequestId>,
        /// The claimer's limit of attempts.
        attempts_max: Option<NonZeroU32>,
        /// The name of the claiming worker.
        worker: Option<&'a WorkerName>,
    },
    /// A lease was extended.
    Extended {
        /// Its new end.
        until: Timestamp,
    },
    /// A settlement took effect.
    Settled {
        /// Its kind.
        kind: VerdictKind,
        /// Its outcome.
        outcome: Settled,
        /// The error to record.
        error: Option<&'a LastError>,
    },
    /// A lease lapsed. Need not be stored: a replay derives it, see [`Effect::is_time_driven`].
    Lapsed {
        /// It was the last attempt.
        exhausted: bool,
    },
    /// The message expired. Need not be stored, like `Lapsed`.
    Expired,
    /// An operator made it Processing or Done.
    Marked {
        /// Which of the two.
        state: MessageState,
    },
    /// An operator made it Dead.
    Killed {
        /// Why.
        reason: DeadReason,
        /// The error to record.
        error: Option<&'a LastError>,
    },
    /// An operator redrove it.
    Redriven {
        /// Its new number.
        number: Number,
        /// Whether its attempts were reset.
        attempts: AttemptCount,
    },
    /// The message was removed: forgotten or erased.
    Dropped,
}

impl<P> Effect<'_, P> {
    /// Whether the effect follows from the passing of time alone. It can be derived from the earlier records and the
    /// time of the next one, so a journal need not store it, and [`crate::machine::Machine::replay`] skips it.
    pub fn is_time_driven(&self) -> bool {
        matches!(self, Self::Lapsed { .. } | Self::Expired)
    }
}

impl<P> Clone for Effect<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Effect<'_, P> {}

/// An effect, with its message and time.
#[derive(Debug)]
pub struct TimedEffect<'a, P = Payload> {
    /// When it happened.
    pub at: Timestamp,
    /// The message that it changed.
    pub uid: Uid,
    /// The change.
    pub effect: Effect<'a, P>,
}

impl<P> Clone for TimedEffect<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for TimedEffect<'_, P> {}

/// Receives every effect, and every change of a record, in order, before it is applied.
pub trait Journal<P = Payload>: RecordJournal {
    /// Records one effect.
    fn record(&mut self, record: TimedEffect<'_, P>);
}

/// Discards all effects: for stores that keep everything in memory.
impl<P> Journal<P> for () {
    fn record(&mut self, _: TimedEffect<'_, P>) {}
}
