//! Everything that is known about a message at one moment.

use std::fmt;
use std::num::NonZeroU32;

use crate::annotation::{LastError, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Fence, Number, Owner, RequestId, Uid};
use crate::key::Key;
use crate::message::{Content, Policy};
use crate::payload::{Omitted, Payload, PayloadHandle};
use crate::port::{MessageSummary, Settled, VerdictKind};
use crate::text::Partition;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// The state of a message. Whether it is leased is independent of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum MessageState {
    /// Its key was observed; there is nothing to process yet.
    Seen,
    /// To be processed, or being processed.
    Processing,
    /// Processed.
    Done,
    /// Given up; an operator has to decide.
    Dead,
}

/// Why a message is Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DeadReason {
    /// A worker or an operator declared it failed.
    Failed,
    /// It has used up its attempts.
    Exhausted,
    /// Its expiry passed.
    Expired,
    /// An operator cancelled it.
    Cancelled,
    /// Its payload does not match its hash.
    Integrity,
    /// No handler is registered for its topic.
    Unhandled,
    /// Its payload cannot be decoded.
    Undecodable,
}

impl MessageState {
    /// The name in stored data, labels and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Seen => "seen",
            Self::Processing => "processing",
            Self::Done => "done",
            Self::Dead => "dead",
        }
    }
}

impl fmt::Display for MessageState {
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

    /// The name in stored data, labels and responses.
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
    /// The worker that holds it.
    pub owner: Owner,
    /// Distinguishes the leases of the message.
    pub fence: Fence,
    /// It is current before this moment, not at it.
    pub until: Timestamp,
}

/// How a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// By a settlement: its kind and its outcome.
    Settled(VerdictKind, Settled),
    /// By lapsing, or by an operator's order.
    Lost,
}

/// The newest lease of a message, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// Extensions cannot go beyond this moment.
    pub extendable_until: Timestamp,
    /// The claim call that it was granted to; see [`crate::Claim::request_identity`].
    pub request: Option<RequestId>,
    /// The claimer's limit of attempts, while the lease is current.
    pub attempts_max: Option<NonZeroU32>,
    /// The name of the claiming worker; kept after the lease has ended.
    pub worker: Option<WorkerName>,
    /// The partition that it occupies while it is current: the partition of the message when the lease was granted.
    pub partition: Option<Partition>,
    /// The content was replaced since the grant; settling it returns [`Settled::Superseded`].
    pub superseded: bool,
    /// How it ended, if it has.
    pub end: Option<GrantEnd>,
}

/// Everything that is known about a message at one moment. `Snapshot<Omitted>` leaves the payload out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot<P = Payload> {
    /// Its identity.
    pub uid: Uid,
    /// Its position in its lane.
    pub number: Number,
    /// The key that it was accepted under.
    pub key: Key,
    /// Whether it holds its key; false once the hold has lapsed.
    pub keyed: bool,
    /// Its state.
    pub state: MessageState,
    /// Why it is Dead, if it is.
    pub dead: Option<DeadReason>,
    /// The content that its handler receives: none if the key was only observed, begun or marked, or if the message is
    /// Done without `keep_finished`.
    pub content: Option<Content<P>>,
    /// Oncebox's own hash of the content; kept when the content is removed.
    pub fingerprint: Option<Fingerprint>,
    /// The caller's hash; kept when the content is removed.
    pub hash: Option<CallerHash>,
    /// The ids of what caused it; kept when the content is removed.
    pub trace: Trace,
    /// The rules that apply to it.
    pub policy: Policy,
    /// When its key was first accepted, observed, begun or marked.
    pub accepted_at: Timestamp,
    /// When its key was last accepted or observed, while it was not Done.
    pub last_seen_at: Timestamp,
    /// When it became Done or Dead.
    pub finished_at: Option<Timestamp>,
    /// Not claimable before this moment, because a delivery was abandoned.
    pub retry_at: Option<Timestamp>,
    /// Failed deliveries.
    pub attempts: u32,
    /// Leases granted.
    pub deliveries: u32,
    /// How often an operator redrove it; see [`crate::Action::Redrive`].
    pub redrives: u32,
    /// The error of the last failed delivery.
    pub last_error: Option<LastError>,
    /// The newest lease, and how it ended.
    pub grant: Option<Grant>,
}

impl<P> Snapshot<P> {
    /// The current lease.
    pub fn lease(&self) -> Option<&Lease> {
        self.grant.as_ref().filter(|grant| grant.end.is_none()).map(|grant| &grant.lease)
    }

    /// When its key stops being held; see [`crate::Hold::until`].
    pub fn dedup_until(&self) -> Timestamp {
        let done_at = self.finished_at.filter(|_| self.state == MessageState::Done);
        self.policy.hold.until(self.accepted_at, done_at)
    }

    /// The summary that a sender gets.
    pub fn summary(&self) -> MessageSummary {
        MessageSummary {
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
