//! Effects: what an operation did, told to the journal, and enough to do it again without deciding anything.

use std::num::NonZeroU32;

use crate::annotation::LastError;
use crate::hash::CallerHash;
use crate::id::{Number, RequestId, Uid};
use crate::key::Key;
use crate::message::{DeadReason, Hold, Lease, NewMessage, Snapshot, State};
use crate::payload::Payload;
use crate::port::{AttemptCount, Settled, VerdictKind};
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// One change of one message.
#[derive(Debug)]
pub enum Effect<'a, P = Payload> {
    /// A new message, Processing.
    Accepted {
        /// Its place.
        number: Number,
        /// What came.
        message: &'a NewMessage<P>,
    },
    /// A new message without content.
    Recorded {
        /// Its place.
        number: Number,
        /// What it is known by.
        key: &'a Key,
        /// How long its key is held.
        hold: Hold,
        /// The caller's hash.
        hash: Option<&'a CallerHash>,
        /// Seen or Done.
        state: State,
    },
    /// The whole message as it stands: it comes back from elsewhere.
    Restored(&'a Snapshot<P>),
    /// Its key came again.
    Sighted {
        /// The caller's hash, if it is to be stored.
        hash: Option<&'a CallerHash>,
    },
    /// Its first content.
    Filled {
        /// Its new place.
        number: Number,
        /// What came.
        message: &'a NewMessage<P>,
    },
    /// Newer content.
    Replaced {
        /// What came.
        message: &'a NewMessage<P>,
        /// The content differs.
        diverged: bool,
    },
    /// A lease.
    Granted {
        /// The lease.
        lease: Lease,
        /// Extensions end here.
        extendable_until: Timestamp,
        /// The claim call that got it.
        request: Option<RequestId>,
        /// The claimer's limit of attempts.
        attempts_max: Option<NonZeroU32>,
        /// What the claimer called itself.
        worker: Option<&'a WorkerName>,
    },
    /// A longer lease.
    Extended {
        /// Its new end.
        until: Timestamp,
    },
    /// A settlement that counted.
    Settled {
        /// Its kind.
        kind: VerdictKind,
        /// Its answer.
        outcome: Settled,
        /// The error to keep.
        error: Option<&'a LastError>,
    },
    /// A lease that ended by itself. Need not be kept: a replay finds out by itself, see [`Effect::is_of_time`].
    Lapsed {
        /// That was the last attempt.
        exhausted: bool,
    },
    /// Its expiry passed. Need not be kept, as above.
    Expired,
    /// An operator made it Processing or Done.
    Marked {
        /// Which of the two.
        state: State,
    },
    /// An operator made it Dead.
    Killed {
        /// Why.
        reason: DeadReason,
        /// The error to keep.
        error: Option<&'a LastError>,
    },
    /// An operator sent it round again.
    Redriven {
        /// Its new place.
        number: Number,
        /// Whether its attempts count anew.
        attempts: AttemptCount,
    },
    /// It is gone: forgotten or erased.
    Dropped,
}

impl<P> Effect<'_, P> {
    /// Whether time alone has brought it. It follows from what was recorded before and from the time of what is recorded
    /// next, so a journal need not keep it, and [`crate::machine::Machine::replay`] passes over it.
    pub fn is_of_time(&self) -> bool {
        matches!(self, Self::Lapsed { .. } | Self::Expired)
    }
}

impl<P> Clone for Effect<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Effect<'_, P> {}

/// An effect, on which message, and when.
#[derive(Debug)]
pub struct Record<'a, P = Payload> {
    /// When.
    pub at: Timestamp,
    /// On which message.
    pub uid: Uid,
    /// What.
    pub effect: Effect<'a, P>,
}

impl<P> Clone for Record<'_, P> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<P> Copy for Record<'_, P> {}

/// Is told every effect, in order, before it is enacted.
pub trait Journal<P = Payload> {
    /// Takes note.
    fn record(&mut self, record: Record<'_, P>);
}

/// Takes note of nothing: for stores that keep everything in memory.
impl<P> Journal<P> for () {
    fn record(&mut self, _: Record<'_, P>) {}
}
