//! Which message has which key, and which uid. An entry may outlive its hold; then nobody holds the key.

use std::hash::{BuildHasher, RandomState};

use super::Machine;
use super::arena::Slot;
use super::index::Index;
use crate::id::Uid;
use crate::key::{Key, Ref};
use crate::payload::PayloadHandle;
use crate::text::Source;

/// Keys come from outside, so the hashes are keyed: nobody can choose keys that collide.
#[derive(Default)]
pub(super) struct Keys {
    by_key: Index,
    by_uid: Index,
    hasher: RandomState,
    sources: Sources,
}

impl Keys {
    /// The same key, with its source's text shared with that of other messages.
    pub(super) fn share(&mut self, key: &Key) -> Key {
        Key { source: self.sources.share(&key.source), ..key.clone() }
    }
}

/// The sources that came last. There are few of them, and every message that comes in brings its own copy of the text;
/// keeping one for all saves memory. A source that is crowded out is just not shared for a while.
struct Sources([Option<Source>; 64]);

impl Default for Sources {
    fn default() -> Self {
        Self([const { None }; 64])
    }
}

impl Sources {
    fn share(&mut self, source: &Source) -> Source {
        let bytes = source.as_str().as_bytes();
        let (first, last) = (bytes[0] as usize, bytes[bytes.len() - 1] as usize);
        let seat = &mut self.0[(bytes.len() * 7 + first * 3 + last) % 64];
        match seat {
            Some(known) if known == source => known.clone(),
            _ => seat.insert(source.clone()).clone(),
        }
    }
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn hash_key(&self, key: &Key) -> u64 {
        self.keys.hasher.hash_one(key)
    }

    pub(super) fn find_uid(&self, uid: Uid) -> Option<Slot> {
        self.keys.by_uid.find(self.keys.hasher.hash_one(uid), |slot| self.messages[slot].uid == uid)
    }

    /// The message that has the key's entry, whether or not it still holds the key.
    pub(super) fn entry(&self, hash: u64, key: &Key) -> Option<Slot> {
        self.keys.by_key.find(hash, |slot| self.messages[slot].key == *key)
    }

    /// The message that holds the key now.
    pub(super) fn holder(&self, hash: u64, key: &Key) -> Option<Slot> {
        self.entry(hash, key).filter(|slot| self.messages[*slot].holds_key(self.now))
    }

    pub(super) fn resolve(&self, target: &Ref) -> Option<Slot> {
        match target {
            Ref::Uid(uid) => self.find_uid(*uid),
            Ref::Key(key) => self.holder(self.hash_key(key), key),
        }
    }

    /// Enters a message under its uid and, if it is keyed, under its key; an older message loses the entry.
    pub(super) fn enter(&mut self, slot: Slot, key_hash: u64) {
        let message = &self.messages[slot];
        let (uid_hash, keyed) = (self.keys.hasher.hash_one(message.uid), message.keyed);
        self.keys.by_uid.insert(uid_hash, slot);
        if !keyed {
            return;
        }
        if let Some(older) = self.entry(key_hash, &self.messages[slot].key) {
            self.keys.by_key.remove(key_hash, older);
            // Its place may depend on the key: a finished message is kept as long as it has one.
            self.replace(older, |machine, older| machine.messages[older].keyed = false);
        }
        self.keys.by_key.insert(key_hash, slot);
    }

    pub(super) fn leave(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let uid_hash = self.keys.hasher.hash_one(message.uid);
        self.keys.by_uid.remove(uid_hash, slot);
        if message.keyed {
            let key_hash = self.hash_key(&message.key);
            self.keys.by_key.remove(key_hash, slot);
        }
    }
}
