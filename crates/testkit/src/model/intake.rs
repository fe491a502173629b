//! Taking in: `observe`, `accept`, `begin`.

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::{
    Accepted, Begin, Begun, Bound, CallerHash, Content, Divergence, Fingerprint, Namespace, NewMessage,
    Observed, Policy, Sighting, Snapshot, State,
};

use super::leases::Wish;
use super::{Facts, Illegal, Model};

/// Named where the store should have been full and was not.
pub(super) const NO_BOUND: Bound = Bound::new(Bound::LANE_MESSAGES, 0, 0);

impl Model {
    /// What `observe` has to answer.
    pub fn observe(&mut self, sighting: &Sighting, told: &Observed) -> Result<Observed, Illegal> {
        self.catch_up();
        let Some(index) = self.find_holder(&sighting.key) else {
            let drawn = match told {
                Observed::First(receipt) => Some(receipt.uid),
                _ => None,
            };
            let uid = self.drawn_uid(drawn)?;
            let index = self.add(uid, &sighting.key, Policy::bare(sighting.hold));
            self.rows[index].message.hash.clone_from(&sighting.hash);
            return Ok(Observed::First(self.receipt(index)));
        };
        let message = &mut self.rows[index].message;
        let diverged = diverged(message, None, sighting.hash.as_ref());
        if message.state != State::Done {
            message.last_seen_at = self.now;
            if message.hash.is_none() {
                message.hash.clone_from(&sighting.hash);
            }
        }
        Ok(Observed::Again { receipt: self.receipt(index), diverged })
    }

    /// What `accept` has to answer.
    pub fn accept(&mut self, message: &NewMessage, told: &Accepted) -> Result<Accepted, Illegal> {
        self.catch_up();
        let Some(index) = self.find_holder(&message.key) else {
            return self.accept_free(message, told);
        };
        let held = &mut self.rows[index].message;
        let diverged = diverged(held, Some(message.fingerprint), message.hash.as_ref());
        let policy = message.policy.divergence;
        if held.state != State::Done {
            held.last_seen_at = self.now;
            if held.content.is_none() {
                let promised = held.held_until().since(held.accepted_at);
                self.fill(index, message);
                let window = &mut self.rows[index].message.policy.hold.window;
                *window = promised.max(*window);
                return Ok(Accepted::New { receipt: self.receipt(index), diverged });
            }
            if policy == Divergence::Replace {
                self.replace(index, message);
                let receipt = self.receipt(index);
                return Ok(if diverged {
                    Accepted::Replaced(receipt)
                } else {
                    Accepted::Duplicate { receipt, diverged }
                });
            }
        }
        let receipt = self.receipt(index);
        let refused = diverged && policy == Divergence::Conflict;
        Ok(if refused { Accepted::Conflict(receipt) } else { Accepted::Duplicate { receipt, diverged } })
    }

    /// Nobody holds the key.
    fn accept_free(&mut self, message: &NewMessage, told: &Accepted) -> Result<Accepted, Illegal> {
        let uid = match message.uid {
            Some(uid) => uid,
            None => self.drawn_uid(told.receipt().map(|receipt| receipt.uid))?,
        };
        if let Some(other) = self.find_uid(uid) {
            return Ok(Accepted::UidTaken(self.receipt(other)));
        }
        let lane_max = message.lane_max;
        if self.is_lane_full(message.key.namespace, &message.content, lane_max) {
            // When to come again, and how it counts, is up to the store.
            return Ok(match told {
                Accepted::Saturated { bound, .. } if bound.name == Bound::LANE_MESSAGES => told.clone(),
                _ => Accepted::Saturated { retry_after: Duration::ZERO, bound: NO_BOUND },
            });
        }
        let index = self.add(uid, &message.key, message.policy);
        self.fill(index, message);
        Ok(Accepted::New { receipt: self.receipt(index), diverged: false })
    }

    /// Whether the lane of a content has as many unfinished messages as it may.
    pub(super) fn is_lane_full<P>(
        &self,
        namespace: Namespace,
        new: &Content<P>,
        lane_max: Option<NonZeroU32>,
    ) -> bool {
        let same_lane = |held: &Snapshot| {
            held.key.namespace == namespace
                && held.state == State::Processing
                && held
                    .content
                    .as_ref()
                    .is_some_and(|content| (&content.topic, content.shard) == (&new.topic, new.shard))
        };
        let count = self.rows.iter().filter(|row| same_lane(&row.message)).count();
        lane_max.is_some_and(|limit| count >= limit.get() as usize)
    }

    /// The first content comes.
    fn fill(&mut self, index: usize, message: &NewMessage) {
        self.renumber(index);
        let held = &mut self.rows[index].message;
        held.content = Some(message.content.clone());
        held.fingerprint = Some(message.fingerprint);
        held.trace = message.trace.clone();
        held.policy = message.policy;
        held.hash.clone_from(&message.hash);
        if held.state == State::Seen {
            held.state = State::Processing;
        }
        supersede(held);
    }

    /// Newer content comes.
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

    /// What `begin` has to answer.
    pub fn begin(&mut self, begin: &Begin, told: &Begun) -> Result<Begun, Illegal> {
        self.catch_up();
        let (drawn_uid, drawn_fence) = match told {
            Begun::Acquired { uid, lease } => (Some(*uid), Some(lease.fence)),
            _ => (None, None),
        };
        let index = match self.find_holder(&begin.key) {
            Some(index) => index,
            None => self.add(self.drawn_uid(drawn_uid)?, &begin.key, Policy::bare(begin.hold)),
        };
        let message = &mut self.rows[index].message;
        if message.state == State::Done {
            return Ok(Begun::Processed(self.receipt(index)));
        }
        if message.state == State::Dead || message.content.is_some() {
            return Ok(Begun::Invalid);
        }
        if let Some(grant) = message.current() {
            return Ok(Begun::Busy { until: grant.lease.until });
        }
        message.last_seen_at = self.now;
        let uid = message.uid;
        let (owner, lease) = (begin.owner, begin.lease);
        let wish = Wish { owner, lease, request: None, attempts_max: None, worker: None };
        let lease = self.grant(index, wish, drawn_fence)?;
        Ok(Begun::Acquired { uid, lease })
    }
}

/// Whether what comes contradicts what is stored.
fn diverged(held: &Snapshot, fingerprint: Option<Fingerprint>, hash: Option<&CallerHash>) -> bool {
    let by_fingerprint = held.fingerprint.zip(fingerprint).is_some_and(|(held, new)| held != new);
    let by_hash =
        held.hash.as_ref().zip(hash).is_some_and(|(held, new)| {
            held.algorithm() == new.algorithm() && held.as_bytes() != new.as_bytes()
        });
    by_fingerprint || by_hash
}

/// The content under a current lease changes.
fn supersede(held: &mut Snapshot) {
    if let Some(grant) = held.grant.as_mut().filter(|grant| grant.end.is_none()) {
        grant.superseded = true;
    }
}
