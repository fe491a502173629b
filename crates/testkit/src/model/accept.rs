//! Accepting: `observe`, `accept`, `begin`.

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::{
    Accepted, Begin, Begun, Bound, CallerHash, Content, Divergence, Fingerprint, MessageState, Namespace,
    NewMessage, Observation, Observed, Policy, Snapshot,
};

use super::leases::LeaseRequest;
use super::{Facts, Illegal, Model};

/// The bound of an expected `Saturated` that the store did not return.
pub(super) const NO_BOUND: Bound = Bound::new(Bound::LANE_MESSAGES, 0, 0);

impl Model {
    /// The expected outcome of `observe`.
    pub fn observe(&mut self, observation: &Observation, actual: &Observed) -> Result<Observed, Illegal> {
        self.catch_up();
        let Some(index) = self.find_holder(&observation.key) else {
            let generated = match actual {
                Observed::First(summary) => Some(summary.uid),
                _ => None,
            };
            let uid = self.generated_uid(generated)?;
            let index = self.add(uid, &observation.key, Policy::bare(observation.hold));
            self.rows[index].message.hash.clone_from(&observation.hash);
            return Ok(Observed::First(self.summary(index)));
        };
        let message = &mut self.rows[index].message;
        let diverged = diverged(message, None, observation.hash.as_ref());
        if message.state != MessageState::Done {
            message.last_seen_at = self.now;
            if message.hash.is_none() {
                message.hash.clone_from(&observation.hash);
            }
        }
        Ok(Observed::Again { summary: self.summary(index), diverged })
    }

    /// The expected outcome of `accept`.
    pub fn accept(&mut self, message: &NewMessage, actual: &Accepted) -> Result<Accepted, Illegal> {
        self.catch_up();
        let Some(index) = self.find_holder(&message.key) else {
            return self.accept_first(message, actual);
        };
        let held = &mut self.rows[index].message;
        let diverged = diverged(held, Some(message.fingerprint), message.hash.as_ref());
        let policy = message.policy.divergence;
        if held.state != MessageState::Done {
            held.last_seen_at = self.now;
            if held.content.is_none() {
                let promised = held.held_until().since(held.accepted_at);
                self.fill(index, message);
                let window = &mut self.rows[index].message.policy.hold.window;
                *window = promised.max(*window);
                return Ok(Accepted::New { summary: self.summary(index), diverged });
            }
            if policy == Divergence::Replace {
                self.replace(index, message);
                let summary = self.summary(index);
                return Ok(if diverged {
                    Accepted::Replaced(summary)
                } else {
                    Accepted::Duplicate { summary, diverged }
                });
            }
        }
        let summary = self.summary(index);
        let refused = diverged && policy == Divergence::Conflict;
        Ok(if refused { Accepted::Conflict(summary) } else { Accepted::Duplicate { summary, diverged } })
    }

    /// Accepts a message whose key is free.
    fn accept_first(&mut self, message: &NewMessage, actual: &Accepted) -> Result<Accepted, Illegal> {
        let uid = match message.uid {
            Some(uid) => uid,
            None => self.generated_uid(actual.summary().map(|summary| summary.uid))?,
        };
        if let Some(other) = self.find_uid(uid) {
            return Ok(Accepted::UidTaken(self.summary(other)));
        }
        let lane_max = message.lane_max;
        if self.is_lane_full(message.key.namespace, &message.content, lane_max) {
            // The store is free to choose when to retry and how to count.
            return Ok(match actual {
                Accepted::Saturated { bound, .. } if bound.name == Bound::LANE_MESSAGES => actual.clone(),
                _ => Accepted::Saturated { retry_after: Duration::ZERO, bound: NO_BOUND },
            });
        }
        let index = self.add(uid, &message.key, message.policy);
        self.fill(index, message);
        Ok(Accepted::New { summary: self.summary(index), diverged: false })
    }

    /// Whether the lane of a content has reached its limit of unfinished messages.
    pub(super) fn is_lane_full<P>(
        &self,
        namespace: Namespace,
        new: &Content<P>,
        lane_max: Option<NonZeroU32>,
    ) -> bool {
        let same_lane = |held: &Snapshot| {
            held.key.namespace == namespace
                && held.state == MessageState::Processing
                && held
                    .content
                    .as_ref()
                    .is_some_and(|content| (&content.topic, content.shard) == (&new.topic, new.shard))
        };
        let count = self.rows.iter().filter(|row| same_lane(&row.message)).count();
        lane_max.is_some_and(|limit| count >= limit.get() as usize)
    }

    /// Sets the first content.
    fn fill(&mut self, index: usize, message: &NewMessage) {
        self.renumber(index);
        let held = &mut self.rows[index].message;
        held.content = Some(message.content.clone());
        held.fingerprint = Some(message.fingerprint);
        held.trace = message.trace.clone();
        held.policy = message.policy;
        held.hash.clone_from(&message.hash);
        if held.state == MessageState::Seen {
            held.state = MessageState::Processing;
        }
        supersede(held);
    }

    /// Sets newer content.
    fn replace(&mut self, index: usize, message: &NewMessage) {
        let held = &mut self.rows[index].message;
        let diverged = diverged(held, Some(message.fingerprint), message.hash.as_ref());
        held.content = Some(message.content.clone());
        held.fingerprint = Some(message.fingerprint);
        held.hash.clone_from(&message.hash);
        if diverged {
            supersede(held);
        }
    }

    /// The expected outcome of `begin`.
    pub fn begin(&mut self, begin: &Begin, actual: &Begun) -> Result<Begun, Illegal> {
        self.catch_up();
        let (generated_uid, generated_fence) = match actual {
            Begun::Acquired { uid, lease } => (Some(*uid), Some(lease.fence)),
            _ => (None, None),
        };
        let index = match self.find_holder(&begin.key) {
            Some(index) => index,
            None => self.add(self.generated_uid(generated_uid)?, &begin.key, Policy::bare(begin.hold)),
        };
        let message = &mut self.rows[index].message;
        if message.state == MessageState::Done {
            return Ok(Begun::Processed(self.summary(index)));
        }
        if message.state == MessageState::Dead || message.content.is_some() {
            return Ok(Begun::Invalid);
        }
        if let Some(grant) = message.current() {
            return Ok(Begun::Busy { until: grant.lease.until });
        }
        message.last_seen_at = self.now;
        let uid = message.uid;
        let (owner, lease) = (begin.owner, begin.lease);
        let lease_request = LeaseRequest { owner, lease, request: None, attempts_max: None, worker: None };
        let lease = self.grant(index, lease_request, generated_fence)?;
        Ok(Begun::Acquired { uid, lease })
    }
}

/// Whether a new message contradicts the stored one.
fn diverged(held: &Snapshot, fingerprint: Option<Fingerprint>, hash: Option<&CallerHash>) -> bool {
    let by_fingerprint = held.fingerprint.zip(fingerprint).is_some_and(|(held, new)| held != new);
    let by_hash =
        held.hash.as_ref().zip(hash).is_some_and(|(held, new)| {
            held.algorithm() == new.algorithm() && held.as_bytes() != new.as_bytes()
        });
    by_fingerprint || by_hash
}

/// Marks the current lease as superseded.
fn supersede(held: &mut Snapshot) {
    if let Some(grant) = held.grant.as_mut().filter(|grant| grant.end.is_none()) {
        grant.superseded = true;
    }
}
