//! What a caller knows about its messages, grouped by state.

use oncebox_core::{Fence, Key, MessageState, Namespace, Omitted, Owner, Snapshot, Uid};
use oncebox_testkit::SplitMix;

/// A message that belongs to this caller.
#[derive(Debug, Clone)]
pub(crate) struct KnownMessage {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
}

/// Suffix of the ids of transient messages. They have no dedup window: the store purges them some time after they are
/// done, and their keys are never used again.
pub(crate) const TRANSIENT_SUFFIX: &str = "-transient";

impl KnownMessage {
    pub(crate) fn has_content(&self) -> bool {
        self.key.namespace == Namespace::Inbox
    }

    pub(crate) fn is_transient(&self) -> bool {
        self.key.id.as_str().ends_with(TRANSIENT_SUFFIX)
    }
}

/// A message under a lease.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) known: KnownMessage,
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
}

/// All messages of a caller, except those that are ready and transient ones that are done.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) held: Vec<Held>,
    pub(crate) done: Vec<KnownMessage>,
    pub(crate) dead: Vec<KnownMessage>,
    /// Retry at a time that no campaign reaches.
    pub(crate) waiting: Vec<KnownMessage>,
    /// Ledger keys that are not leased.
    pub(crate) seen: Vec<KnownMessage>,
}

impl Messages {
    /// Adds a message that an earlier process left in the store.
    pub(crate) fn adopt(&mut self, message: &Snapshot<Omitted>) {
        let known = KnownMessage { key: message.key.clone(), uid: message.uid };
        if let Some(lease) = message.lease() {
            self.held.push(Held { known, owner: lease.owner, fence: lease.fence });
            return;
        }
        match message.state {
            MessageState::Seen => self.seen.push(known),
            MessageState::Dead => self.dead.push(known),
            MessageState::Processing if message.retry_at.is_some() => self.waiting.push(known),
            MessageState::Done => self.add_done(known),
            // Ready: a claim returns it.
            _ => {}
        }
    }

    /// The size of the largest group, the leased messages excluded.
    pub(crate) fn largest_group(&self) -> usize {
        self.done.len().max(self.dead.len()).max(self.waiting.len()).max(self.seen.len())
    }

    /// Adds a message that is done.
    pub(crate) fn add_done(&mut self, known: KnownMessage) {
        if !known.is_transient() {
            self.done.push(known);
        }
    }
}

/// Removes and returns a random element.
pub(crate) fn take<T>(from: &mut Vec<T>, rng: &mut SplitMix) -> Option<T> {
    if from.is_empty() {
        return None;
    }
    let index = usize::try_from(rng.below(from.len() as u64)).unwrap_or_default();
    Some(from.swap_remove(index))
}
