//! Eviction: what is finished or far off may leave memory, and comes back when somebody asks for it.
//!
//! A store that keeps a cold side takes a snapshot with its version, writes it, and evicts the message only if that is
//! still its version. Before an operation it asks [`Machine::needs`] about the uids and keys that the operation names,
//! looks those up in the cold side, and hands what it finds to [`Machine::recall`]. What is in memory wins; and once a
//! message was recalled, its cold copy is void, for it may change or go: the store must not find it again. A message that is
//! not due yet is recalled before the earlier of its due time and its expiry.

use super::Machine;
use super::arena::Slot;
use super::content::fill;
use super::message::Message;
use crate::id::Uid;
use crate::key::Ref;
use crate::limits::REPEAT_WINDOW;
use crate::message::{Snapshot, State};
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

/// Which state of a message a snapshot shows. No two states of any message share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version(u64);

impl<P: PayloadHandle> Machine<P> {
    /// Whether memory cannot answer for this uid or key: it may be on the cold side.
    pub fn needs(&self, target: &Ref) -> bool {
        match target {
            Ref::Uid(uid) => self.find_uid(*uid).is_none(),
            Ref::Key(key) => self.entry(self.hash_key(key), key).is_none(),
        }
    }

    /// The moment up to which time has taken effect. Effects that a store writes down by itself happen at this moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// A message as it stands, as far as time has taken effect.
    pub fn peek(&self, uid: Uid) -> Option<Snapshot<P>> {
        self.find_uid(uid).map(|slot| self.snapshot(slot))
    }

    /// A message as it stands and the version of that, if it may leave memory: Dead, Done for longer than repeats of
    /// its settlement are answered, or not due yet.
    pub fn evictable(&self, uid: Uid) -> Option<(Snapshot<P>, Version)> {
        let slot = self.find_uid(uid)?;
        let message = &self.messages[slot];
        let may_leave = match message.state {
            State::Done => message.moment.after(REPEAT_WINDOW) <= self.now,
            State::Dead => true,
            State::Processing => message.due() > self.now && !self.is_leased(message),
            State::Seen => false,
        };
        may_leave.then(|| (self.snapshot(slot), Version(message.version)))
    }

    /// Drops a message from memory if it has not changed since `version`. Nothing is recorded: the store knows.
    pub fn evict(&mut self, uid: Uid, version: Version) -> bool {
        let unchanged = |slot: &Slot| self.messages[*slot].version == version.0;
        let Some(slot) = self.find_uid(uid).filter(unchanged) else { return false };
        self.remove(slot);
        true
    }

    /// Takes an evicted message back, unless memory has it already. Nothing is recorded: the store knows.
    pub fn recall(&mut self, snapshot: &Snapshot<P>) {
        if self.find_uid(snapshot.uid).is_some() {
            return;
        }
        let key_hash = self.hash_key(&snapshot.key);
        let mut message = self.thaw(snapshot, key_hash);
        // A lapsed key may have been taken over by a message that is on the cold side now; its entry must not hide that.
        message.keyed &= message.holds_key(self.now);
        self.insert(message);
    }

    /// A message from its snapshot, not yet in any index. It does not take its key from one that holds it now.
    pub(super) fn thaw(&mut self, snapshot: &Snapshot<P>, key_hash: u32) -> Message<P> {
        let taken = self.holder(key_hash, &snapshot.key).is_some();
        let key = self.keys.share(&snapshot.key);
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
        message.moment = match snapshot.state {
            State::Done | State::Dead => snapshot.finished_at.unwrap_or(Timestamp::NEVER),
            State::Seen | State::Processing => snapshot.retry_at.unwrap_or(Timestamp::EPOCH),
        };
        message.attempts = snapshot.attempts;
        message.deliveries = snapshot.deliveries;
        message.grant = snapshot.grant.as_ref().map_or(Slot::NONE, |grant| self.grants.insert(grant.into()));
        message.trace = snapshot.trace.clone();
        message.change_rare(|rare| {
            rare.hash = snapshot.hash.clone();
            rare.last_error = snapshot.last_error.clone();
            rare.redrives = snapshot.redrives;
        });
        message
    }
}
