//! The state machine: old state + operation + time → outcome + effects. Pure and deterministic.
//!
//! A store hands each item of a call to one method here, together with a [`Turn`]: the time, a source of ids, and a
//! journal that is told every effect *before* it is enacted. [`Machine::replay`] enacts the same effects again and
//! decides nothing, so live state and replayed state come from one piece of code, `enact.rs`, the only one that writes.
//!
//! A message lives in an arena; indexes hold slots, never copies. `place.rs` keeps each message in exactly the
//! structures that its state and the time ask for: a lane (claimable), a partition's queue, the timers, a shelf.

mod accept;
mod arena;
mod claim;
mod content;
mod counts;
mod enact;
mod ended;
mod evict;
mod held;
mod index;
mod inherited;
mod keys;
mod lanes;
mod leases;
mod letters;
mod message;
mod numbers;
mod observe;
mod operate;
mod partitions;
mod place;
mod read;
mod ready;
mod record;
mod replay;
mod retention;
mod salvage;
mod settle;
mod sorted;
#[cfg(test)]
mod tests;
mod timers;
mod topics;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::{Fence, IdSource, Number, Owner, RequestId, Uid};
use crate::key::Namespace;
use crate::payload::{Payload, PayloadHandle};
use crate::port::Bound;
use crate::time::Timestamp;
use arena::{Arena, Slot};
use counts::Tally;
use ended::Ended;
use held::Held;
use keys::Keys;
use lanes::Lanes;
use message::Message;
use numbers::Numbers;
use partitions::Partitions;
use retention::Shelves;
use timers::Timers;

pub use evict::Version;
pub use leases::Resume;
pub use record::{Effect, Journal, Record};

/// How much a machine may hold. Over a bound, what would add is answered `Saturated`; a held key is never forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Messages that are not Done.
    pub messages_max: u64,
    /// Keys and records of any kind, Done ones included.
    pub keys_max: u64,
    /// Payloads, attributes and the fixed cost of each record together.
    pub live_bytes_max: u64,
}

impl Default for Capacity {
    /// A million messages, four million keys, one gibibyte.
    fn default() -> Self {
        Self { messages_max: 1_000_000, keys_max: 4_000_000, live_bytes_max: 1 << 30 }
    }
}

/// What one operation is given: the time, new ids, and a journal for its effects.
pub struct Turn<'a, P = Payload> {
    /// Store time; a moment before an earlier turn's counts as that turn's.
    pub now: Timestamp,
    /// Where new uids come from.
    pub ids: &'a mut dyn IdSource,
    /// Told every effect before it is enacted.
    pub journal: &'a mut dyn Journal<P>,
}

/// All messages and keys of a store, in memory.
pub struct Machine<P = Payload> {
    capacity: Capacity,
    now: Timestamp,
    number_next: u64,
    fence_next: u64,
    version_next: u64,
    messages: Arena<Message<P>>,
    grants: Arena<Held>,
    keys: Keys,
    lanes: Lanes,
    partitions: Partitions,
    timers: Timers,
    shelves: Shelves,
    /// For listings.
    numbers: Numbers,
    /// Current leases by the claim call that got them.
    requests: BTreeMap<(Namespace, Owner, RequestId, Fence), Slot>,
    tally: Tally,
    /// Messages with a lower number than this are not given out before this moment; see `hold_back`.
    held_back: (Number, Timestamp),
    /// What time has ended since the last upkeep.
    ended: Ended,
}

impl<P: PayloadHandle> Machine<P> {
    /// An empty machine.
    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            now: Timestamp::EPOCH,
            number_next: 1,
            fence_next: 1,
            version_next: 1,
            messages: Arena::default(),
            grants: Arena::default(),
            keys: Keys::default(),
            lanes: Lanes::default(),
            partitions: Partitions::default(),
            timers: Timers::default(),
            shelves: Shelves::default(),
            numbers: Numbers::default(),
            requests: BTreeMap::new(),
            tally: Tally::default(),
            held_back: (Number(0), Timestamp::EPOCH),
            ended: Ended::default(),
        }
    }

    /// Lets everything happen that time has brought by `turn.now`, each event at its own instant.
    fn advance(&mut self, turn: &mut Turn<'_, P>) {
        while !self.catch_up(turn, u32::MAX) {}
    }

    /// Lets a bounded number of events happen that time has brought by `turn.now`, each at its own instant. Answers whether
    /// that was all. Every operation does the rest first; a store may do it in pieces before, when there is much.
    pub fn catch_up(&mut self, turn: &mut Turn<'_, P>, events_max: u32) -> bool {
        turn.now = turn.now.max(self.now);
        for _ in 0..events_max {
            let Some((at, slot)) = self.timers.due(turn.now) else {
                self.now = turn.now;
                return true;
            };
            self.now = self.now.max(at);
            self.tick(turn.journal, slot);
        }
        false
    }

    /// The next thing that time brings to one message: its lease ends, it expires, or it becomes claimable.
    fn tick(&mut self, journal: &mut dyn Journal<P>, slot: Slot) {
        let message = &self.messages[slot];
        if self.is_leased(message) {
            let claimer = self.grants[message.grant].attempts_max;
            let exhausted = message.is_processing() && message.last_attempt(claimer);
            self.commit(journal, slot, Effect::Lapsed { exhausted });
        } else if message.is_processing() && message.expires <= self.now {
            self.commit(journal, slot, Effect::Expired);
        } else {
            self.replace(slot, |_, _| ());
        }
    }

    /// Higher than every number that was given out.
    pub fn next_number(&self) -> Number {
        Number(self.number_next)
    }

    /// Gives out this number next, and those after it. For stores that lay some of their messages before a machine: only they
    /// know which numbers are free.
    pub fn number_from(&mut self, next: Number) {
        self.number_next = next.0;
    }

    fn next_fence(&self) -> Fence {
        Fence::new(self.fence_next).expect("fences start at one")
    }

    /// A uid that no message here has.
    fn draw_uid(&self, turn: &mut Turn<'_, P>) -> Uid {
        const TRIES: u32 = 8;
        (0..TRIES)
            .map(|_| turn.ids.next_uid(turn.now))
            .find(|uid| self.find_uid(*uid).is_none())
            .expect("an id source does not repeat itself")
    }

    /// How much of each bound is used: messages, keys, bytes.
    fn bounds(&self) -> [Bound; 3] {
        let Capacity { messages_max, keys_max, live_bytes_max } = self.capacity;
        [
            Bound::new(Bound::MESSAGES, self.tally.unfinished(), messages_max),
            Bound::new(Bound::KEYS, self.messages.len(), keys_max),
            Bound::new(Bound::LIVE_BYTES, self.tally.bytes(), live_bytes_max),
        ]
    }

    /// If there is no room for one more message of `bytes`, when to come again and which bound is full.
    fn full(&self, bytes: u64) -> Option<(Duration, Bound)> {
        let [messages, keys, _] = self.bounds();
        let full = [messages, keys].into_iter().find(|bound| bound.used >= bound.limit);
        full.map(|bound| (self.relief(), bound)).or_else(|| self.heavy(bytes))
    }

    /// If there is no room for `bytes` more, when to come again and which bound is full.
    fn heavy(&self, bytes: u64) -> Option<(Duration, Bound)> {
        let [.., live_bytes] = self.bounds();
        (live_bytes.used + bytes > live_bytes.limit).then(|| (self.relief(), live_bytes))
    }

    /// When there may be room again: the next moment at which something is forgotten, within reason.
    fn relief(&self) -> Duration {
        const RETRY_MIN: Duration = Duration::from_secs(1);
        const RETRY_MAX: Duration = Duration::from_secs(60);
        let relief = self.shelves.next_forgotten().map_or(RETRY_MIN, |at| at.since(self.now));
        relief.clamp(RETRY_MIN, RETRY_MAX)
    }
}
