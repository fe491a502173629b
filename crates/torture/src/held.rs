//! What a caller knows about its messages, sorted by what can be done with them.

use oncebox_core::{Fence, Key, Namespace, Omitted, Owner, Snapshot, State, Uid};
use oncebox_testkit::SplitMix;

/// A message of this caller's.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) key: Key,
    pub(crate) uid: Uid,
}

/// How the ids of loose messages end. Their keys are not held: they are forgotten some time after they are done, and
/// their keys never come again.
pub(crate) const LOOSE: &str = "-loose";

impl Known {
    pub(crate) fn has_content(&self) -> bool {
        self.key.namespace == Namespace::Inbox
    }

    pub(crate) fn is_loose(&self) -> bool {
        self.key.id.as_str().ends_with(LOOSE)
    }
}

/// A message under a lease.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) known: Known,
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
}

/// All messages of a caller but those that are ready or loose and done.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    pub(crate) held: Vec<Held>,
    pub(crate) done: Vec<Known>,
    pub(crate) dead: Vec<Known>,
    /// With a retry time that does not pass.
    pub(crate) waiting: Vec<Known>,
    /// Keys without content that are not leased.
    pub(crate) seen: Vec<Known>,
}

impl Messages {
    /// Sorts in a message that was there before this process.
    pub(crate) fn adopt(&mut self, message: &Snapshot<Omitted>) {
        let known = Known { key: message.key.clone(), uid: message.uid };
        if let Some(lease) = message.lease() {
            self.held.push(Held { known, owner: lease.owner, fence: lease.fence });
            return;
        }
        match message.state {
            State::Seen => self.seen.push(known),
            State::Dead => self.dead.push(known),
            State::Processing if message.retry_at.is_some() => self.waiting.push(known),
            State::Done => self.finished(known),
            // Ready: a claim finds it.
            _ => {}
        }
    }

    /// How many there are of the kind that has most and is not worked on.
    pub(crate) fn longest(&self) -> usize {
        self.done.len().max(self.dead.len()).max(self.waiting.len()).max(self.seen.len())
    }

    /// A message is done.
    pub(crate) fn finished(&mut self, known: Known) {
        if !known.is_loose() {
            self.done.push(known);
        }
    }
}

/// Takes one out at random.
pub(crate) fn take<T>(from: &mut Vec<T>, rng: &mut SplitMix) -> Option<T> {
    if from.is_empty() {
        return None;
    }
    let place = usize::try_from(rng.below(from.len() as u64)).unwrap_or_default();
    Some(from.swap_remove(place))
}
