//! Lookup by key and by uid, including messages that held a key before. An entry may outlive its hold; then the key is
//! free.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

use super::Machine;
use super::arena::Slot;
use super::index::Index;
use crate::id::Uid;
use crate::key::{Key, MessageRef};
use crate::payload::PayloadHandle;
use crate::text::Source;
use crate::time::Timestamp;

/// Keys come from untrusted senders, so the hashes are keyed: nobody can craft keys that collide.
pub(super) struct Keys {
    by_key: Index,
    by_uid: Index,
    /// Messages that lost their key's entry, by the hash of the key, oldest first. There are few: a key has to be sent
    /// again after its hold.
    former: BTreeMap<(u32, Timestamp, Uid), Slot>,
    hasher: RandomState,
    uid_secret: (u64, u64),
    sources: SourceCache,
}

impl Default for Keys {
    fn default() -> Self {
        let hasher = RandomState::new();
        let uid_secret = (hasher.hash_one(1), hasher.hash_one(2));
        Self {
            by_key: Index::default(),
            by_uid: Index::default(),
            former: BTreeMap::new(),
            hasher,
            uid_secret,
            sources: SourceCache::default(),
        }
    }
}

impl Keys {
    /// A uid is short and mostly random: one multiplication of its halves, each mixed with a secret, spreads it well.
    #[expect(clippy::cast_possible_truncation, reason = "halves of a wide number")]
    fn hash_uid(&self, uid: Uid) -> u32 {
        let (low, high) = (uid.as_u128() as u64, (uid.as_u128() >> 64) as u64);
        let product = u128::from(low ^ self.uid_secret.0) * u128::from(high ^ self.uid_secret.1);
        ((product as u64) ^ (product >> 64) as u64) as u32
    }

    /// The same key, sharing the text of its source with other messages.
    pub(super) fn intern(&mut self, key: &Key) -> Key {
        Key { namespace: key.namespace, source: self.sources.intern(&key.source), id: key.id.clone() }
    }
}

/// Recently used sources. There are few distinct ones, but every new message brings its own copy of the text; sharing
/// one copy saves memory. A source that is displaced from the cache is simply not shared until it is used again.
struct SourceCache([Option<Source>; 64]);

impl Default for SourceCache {
    fn default() -> Self {
        Self([const { None }; 64])
    }
}

impl SourceCache {
    fn intern(&mut self, source: &Source) -> Source {
        let bytes = source.as_str().as_bytes();
        let (first, last) = (bytes[0] as usize, bytes[bytes.len() - 1] as usize);
        let entry = &mut self.0[(bytes.len() * 7 + first * 3 + last) % 64];
        match entry {
            Some(known) if known == source => known.clone(),
            _ => entry.insert(source.clone()).clone(),
        }
    }
}

impl<P: PayloadHandle> Machine<P> {
    #[expect(clippy::cast_possible_truncation, reason = "an index takes 32 bits")]
    pub(super) fn hash_key(&self, key: &Key) -> u32 {
        let (source, id) = (key.source.as_str().as_bytes(), key.id.as_str().as_bytes());
        let mut hasher = self.keys.hasher.build_hasher();
        // The length separates source and id.
        hasher.write_u64(((key.namespace as u64) << 32) | source.len() as u64);
        hasher.write(source);
        hasher.write(id);
        hasher.finish() as u32
    }

    pub(super) fn find_uid(&self, uid: Uid) -> Option<Slot> {
        self.keys.by_uid.find(self.keys.hash_uid(uid), |slot| self.messages[slot].uid == uid)
    }

    /// The message that has the key's entry, whether or not it still holds the key.
    pub(super) fn entry(&self, hash: u32, key: &Key) -> Option<Slot> {
        self.keys.by_key.find(hash, |slot| self.messages[slot].key == *key)
    }

    /// The messages that were accepted under the key, newest first, at most `limit`.
    pub(super) fn messages_with_key(&self, key: &Key, limit: usize) -> Vec<Slot> {
        let hash = self.hash_key(key);
        let oldest = (hash, Timestamp::EPOCH, Uid::from_u128(0));
        let newest = (hash, Timestamp::NEVER, Uid::from_u128(u128::MAX));
        let former = self.keys.former.range(oldest..=newest).rev();
        let former = former.map(|(_, slot)| *slot).filter(|slot| self.messages[*slot].key == *key);
        let mut slots: Vec<_> = self.entry(hash, key).into_iter().chain(former.take(limit)).collect();
        let age = |slot: &Slot| (self.messages[*slot].accepted_at, self.messages[*slot].uid);
        slots.sort_by_key(|slot| std::cmp::Reverse(age(slot)));
        slots.truncate(limit);
        slots
    }

    /// The message that holds the key now.
    pub(super) fn holder(&self, hash: u32, key: &Key) -> Option<Slot> {
        self.entry(hash, key).filter(|slot| self.messages[*slot].holds_key(self.now))
    }

    pub(super) fn resolve(&self, target: &MessageRef) -> Option<Slot> {
        match target {
            MessageRef::Uid(uid) => self.find_uid(*uid),
            MessageRef::Key(key) => self.holder(self.hash_key(key), key),
        }
    }

    /// Indexes a message by its uid and, if it is keyed, by its key; an older message loses the key's entry.
    pub(super) fn add_to_index(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let (uid_hash, key_hash) = (self.keys.hash_uid(message.uid), message.key_hash);
        self.keys.by_uid.insert(uid_hash, slot);
        if !message.keyed {
            self.keys.former.insert((key_hash, message.accepted_at, message.uid), slot);
            return;
        }
        if let Some(older) = self.entry(key_hash, &self.messages[slot].key) {
            // Its retention may depend on the key: a finished message is kept for as long as it holds one.
            self.reindex(older, Self::release_key);
        }
        self.keys.by_key.insert(key_hash, slot);
    }

    /// Removes the key's entry from the message that has it. The message must not be indexed.
    pub(super) fn release_key(&mut self, slot: Slot) {
        let message = &mut self.messages[slot];
        message.keyed = false;
        let former = (message.key_hash, message.accepted_at, message.uid);
        self.keys.by_key.remove(message.key_hash, slot);
        self.keys.former.insert(former, slot);
    }

    pub(super) fn remove_from_index(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let uid_hash = self.keys.hash_uid(message.uid);
        self.keys.by_uid.remove(uid_hash, slot);
        if message.keyed {
            self.keys.by_key.remove(message.key_hash, slot);
        } else {
            self.keys.former.remove(&(message.key_hash, message.accepted_at, message.uid));
        }
    }
}
