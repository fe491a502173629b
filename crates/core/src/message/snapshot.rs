//! Everything that is known about a message at one moment, and the summary that senders get.

use crate::annotation::{LastError, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Number, Uid};
use crate::key::Key;
use crate::message::{Content, DeadReason, Grant, Lease, MessageState, Policy};
use crate::payload::{Omitted, Payload, PayloadHandle};
use crate::time::Timestamp;

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

/// The stored message that has a sender's key. Every field describes the stored message, not the one that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSummary {
    /// The identity of the message.
    pub uid: Uid,
    /// When its key was first accepted or observed.
    pub accepted_at: Timestamp,
    /// Until when duplicates are recognized, at least.
    pub dedup_until: Timestamp,
    /// Its current state.
    pub state: MessageState,
    /// The trace ids it was accepted with.
    pub trace: Trace,
}
