//! Eviction: finished messages and messages due far in the future may leave memory, and are recalled on demand.
//!
//! A store with cold storage takes a snapshot with its version, writes it, and evicts the message only if the version
//! is still the same. Before an operation the store asks [`Machine::needs_recall`] about the uids and keys that the
//! operation names, reads those from cold storage, and passes what it finds to [`Machine::recall`]. The copy in memory
//! takes precedence. Once a message is recalled, its cold copy is void, because the message may change or be removed:
//! the store must not find that copy again. A message that is not due yet must be recalled before the earlier of its
//! due time and its expiry.

use super::Machine;
use super::arena::Slot;
use super::content::fill;
use super::message::Message;
use crate::id::Uid;
use crate::key::MessageRef;
use crate::limits::REPEAT_WINDOW;
use crate::message::{MessageState, Snapshot};
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

/// Identifies the state of a message that a snapshot shows. No two states of any message share a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

impl<P: PayloadHandle> Machine<P> {
    /// Whether this uid or key is not in memory and may be in cold storage.
    pub fn needs_recall(&self, target: &MessageRef) -> bool {
        match target {
            MessageRef::Uid(uid) => self.find_uid(*uid).is_none(),
            MessageRef::Key(key) => self.entry(self.hash_key(key), key).is_none(),
        }
    }

    /// The moment up to which timer events have been processed. Effects that a store records itself happen at this
    /// moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The current state of a message, as far as timer events have been processed.
    pub fn peek(&self, uid: Uid) -> Option<Snapshot<P>> {
        self.find_uid(uid).map(|slot| self.snapshot(slot))
    }

    /// The current state of a message and its version, if it may leave memory: Dead, not due yet, or Done for longer
    /// than repeats of its settlement are answered.
    pub fn evictable(&self, uid: Uid) -> Option<(Snapshot<P>, Version)> {
        let slot = self.find_uid(uid)?;
        let message = &self.messages[slot];
        let evictable = match message.state {
            MessageState::Done => message.finished_or_retry_at.after(REPEAT_WINDOW) <= self.now,
            MessageState::Dead => true,
            MessageState::Processing => message.due() > self.now && !self.is_leased(message),
            MessageState::Seen => false,
        };
        evictable.then(|| (self.snapshot(slot), Version(message.version)))
    }

    /// Removes a message from memory if it has not changed since `version`. Nothing is recorded; the store keeps the
    /// copy.
    pub fn evict(&mut self, uid: Uid, version: Version) -> bool {
        let unchanged = |slot: &Slot| self.messages[*slot].version == version.0;
        let Some(slot) = self.find_uid(uid).filter(unchanged) else { return false };
        self.remove(slot);
        true
    }

    /// Restores an evicted message, unless it is in memory already. Nothing is recorded; the store has the copy.
    pub fn recall(&mut self, snapshot: &Snapshot<P>) {
        if self.find_uid(snapshot.uid).is_some() {
            return;
        }
        let key_hash = self.hash_key(&snapshot.key);
        let mut message = self.restore(snapshot, key_hash);
        // A lapsed key may now be held by a message in cold storage; this entry must not hide that message.
        message.keyed &= message.holds_key(self.now);
        self.insert(message);
    }

    /// Builds a message from its snapshot, without indexing it. It does not take its key from a message that holds it
    /// now.
    pub(super) fn restore(&mut self, snapshot: &Snapshot<P>, key_hash: u32) -> Message<P> {
        let taken = self.holder(key_hash, &snapshot.key).is_some();
        let key = self.keys.intern(&snapshot.key);
        let accepted_at = snapshot.accepted_at;
        let mut message =
            Message::new(snapshot.uid, snapshot.number, key, key_hash, &snapshot.policy, accepted_at);
        if let Some(content) = &snapshot.content {
            fill(&mut self.lanes, &mut self.partitions, &mut message, content);
        }
        message.keyed = snapshot.keyed && !taken;
        message.state = snapshot.state;
        message.dead = snapshot.dead;
        message.fingerprint = snapshot.fingerprint;
        message.last_seen_at = snapshot.last_seen_at;
        message.finished_or_retry_at = match snapshot.state {
            MessageState::Done | MessageState::Dead => snapshot.finished_at.unwrap_or(Timestamp::NEVER),
            MessageState::Seen | MessageState::Processing => snapshot.retry_at.unwrap_or(Timestamp::EPOCH),
        };
        message.attempts = snapshot.attempts;
        message.deliveries = snapshot.deliveries;
        message.grant = snapshot.grant.as_ref().map_or(Slot::NONE, |grant| self.grants.insert(grant.into()));
        message.trace = snapshot.trace.clone();
        message.update_rare(|rare| {
            rare.hash = snapshot.hash.clone();
            rare.last_error = snapshot.last_error.clone();
            rare.redrives = snapshot.redrives;
        });
        message
    }
}
