//! Everything that is known about a message at one moment.

use std::fmt;
use std::num::NonZeroU32;

use crate::annotation::{LastError, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Fence, Number, Owner, RequestId, Uid};
use crate::key::Key;
use crate::message::{Content, Policy};
use crate::payload::{Omitted, Payload, PayloadHandle};
use crate::port::{Receipt, Settled, VerdictKind};
use crate::text::Partition;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// Where a message stands. A lease stands beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum State {
    /// Its key was sighted; nothing is to be done yet.
    Seen,
    /// To be handled, or being handled.
    Processing,
    /// Handled.
    Done,
    /// Given up, for an operator to look at.
    Dead,
}

/// Why a message is Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// A worker or an operator said so.
    Failed,
    /// Its deliveries ended badly as often as its policy allows.
    Exhausted,
    /// Its expiry passed.
    Expired,
    /// An operator cancelled it.
    Cancelled,
    /// Its payload does not match its hash.
    Integrity,
    /// No handler takes its topic.
    Unhandled,
    /// Its payload cannot be decoded.
    Undecodable,
}

impl State {
    /// The name in stored data, labels and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl DeadReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Failed,
        Self::Exhausted,
        Self::Expired,
        Self::Cancelled,
        Self::Integrity,
        Self::Unhandled,
        Self::Undecodable,
    ];

    /// The name in stored data, labels and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Exhausted => "exhausted",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
            Self::Integrity => "integrity",
            Self::Unhandled => "unhandled",
            Self::Undecodable => "undecodable",
        }
    }
}

impl fmt::Display for DeadReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The right to settle one message, until a moment of store time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// Who holds it.
    pub owner: Owner,
    /// Which of the message's leases it is.
    pub fence: Fence,
    /// It is current before this moment, not at it.
    pub until: Timestamp,
}

/// How a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// By a settlement: its kind and what it was answered.
    Settled(VerdictKind, Settled),
    /// By time, or by an operator.
    Lost,
}

/// The newest lease of a message and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// Extensions end here.
    pub extendable_until: Timestamp,
    /// The claim call that got it; see [`crate::Claim::request_identity`].
    pub request: Option<RequestId>,
    /// The claimer's limit of attempts, while the lease is current.
    pub attempts_max: Option<NonZeroU32>,
    /// What the claimer called itself; stays when the lease has ended.
    pub worker: Option<WorkerName>,
    /// The partition that it keeps busy while it is current: the one that the message had when it was granted.
    pub partition: Option<Partition>,
    /// The content was replaced since; its settlement answers [`Settled::Superseded`].
    pub superseded: bool,
    /// How it ended, if it has.
    pub end: Option<GrantEnd>,
}

/// Everything that is known about a message at one moment. `Snapshot<Omitted>` leaves the payload out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot<P = Payload> {
    /// Its identity.
    pub uid: Uid,
    /// Its place in its lane.
    pub number: Number,
    /// What it is or was known by.
    pub key: Key,
    /// Whether it holds its key; false once the hold has lapsed.
    pub keyed: bool,
    /// Where it stands.
    pub state: State,
    /// Why it is Dead, if it is.
    pub dead: Option<DeadReason>,
    /// What its handler gets: none if it was only sighted, begun or marked, or is Done without `keep_finished`.
    pub content: Option<Content<P>>,
    /// Our hash of the content; stays when the content goes.
    pub fingerprint: Option<Fingerprint>,
    /// The caller's hash; stays when the content goes.
    pub hash: Option<CallerHash>,
    /// What caused it; stays when the content goes.
    pub trace: Trace,
    /// The rules it lives under.
    pub policy: Policy,
    /// When its key was first accepted, sighted, begun or marked.
    pub accepted_at: Timestamp,
    /// When its key came last, while it was not Done.
    pub last_seen_at: Timestamp,
    /// When it became Done or Dead.
    pub finished_at: Option<Timestamp>,
    /// Not claimable before this moment, because a delivery was abandoned.
    pub retry_at: Option<Timestamp>,
    /// Deliveries that ended badly.
    pub attempts: u32,
    /// Leases granted.
    pub deliveries: u32,
    /// How often an operator redrove it; see [`crate::Action::Redrive`].
    pub redrives: u32,
    /// Why the last one failed.
    pub last_error: Option<LastError>,
    /// The newest lease and what became of it.
    pub grant: Option<Grant>,
}

impl<P> Snapshot<P> {
    /// The lease that is current.
    pub fn lease(&self) -> Option<&Lease> {
        self.grant.as_ref().filter(|grant| grant.end.is_none()).map(|grant| &grant.lease)
    }

    /// When its key stops being held; see [`crate::Hold::until`].
    pub fn dedup_until(&self) -> Timestamp {
        let done_at = self.finished_at.filter(|_| self.state == State::Done);
        self.policy.hold.until(self.accepted_at, done_at)
    }

    /// The receipt that a sender gets for it.
    pub fn receipt(&self) -> Receipt {
        Receipt {
            uid: self.uid,
            accepted_at: self.accepted_at,
            dedup_until: self.dedup_until(),
            state: self.state,
            trace: self.trace.clone(),
        }
    }

    /// The same without the payload.
    pub fn without_payload(self) -> Snapshot<Omitted>
    where
        P: PayloadHandle,
    {
        Snapshot {
            uid: self.uid,
            number: self.number,
            key: self.key,
            keyed: self.keyed,
            state: self.state,
            dead: self.dead,
            content: self
                .content
                .map(|content| content.with_payload(|payload| Omitted { bytes: payload.bytes() })),
            fingerprint: self.fingerprint,
            hash: self.hash,
            trace: self.trace,
            policy: self.policy,
            accepted_at: self.accepted_at,
            last_seen_at: self.last_seen_at,
            finished_at: self.finished_at,
            retry_at: self.retry_at,
            attempts: self.attempts,
            deliveries: self.deliveries,
            redrives: self.redrives,
            last_error: self.last_error,
            grant: self.grant,
        }
    }
}
