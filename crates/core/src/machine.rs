//! The state machine: old state + operation + time → outcome + effects. Pure and deterministic.
//!
//! A store passes each item of a call to one method of [`Machine`], together with a [`CallContext`]: the time, a source
//! of ids, and a journal that receives every effect *before* it is applied. [`Machine::replay`] applies recorded
//! effects again without making decisions. Live operations and replay thus share one implementation, `apply.rs`, which
//! is the only code that changes a message.
//!
//! Messages live in an arena; indexes hold slots, never copies. `membership.rs` keeps each message in exactly the
//! indexes that its state and the time require: a lane (claimable messages), a partition's queue, the timers, or a
//! retention queue.

mod accept;
mod apply;
mod arena;
mod claim;
mod content;
mod counts;
mod dead_letters;
mod effect;
mod evict;
mod grant;
mod index;
mod inherited;
mod keys;
mod lanes;
mod leases;
mod membership;
mod message;
mod numbers;
mod observe;
mod operate;
mod partitions;
mod read;
mod ready;
mod record_table;
mod replay;
mod retention;
mod salvage;
mod settle;
mod sorted;
#[cfg(test)]
mod tests;
mod timer_events;
mod timers;
mod topics;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bound::Bound;
use crate::id::{Fence, IdSource, Number, Owner, RequestId, Uid};
use crate::key::Namespace;
use crate::payload::{Payload, PayloadHandle};
use crate::time::Timestamp;
use arena::{Arena, Slot};
use counts::Totals;
use grant::StoredGrant;
use keys::Keys;
use lanes::Lanes;
use message::Message;
use numbers::Numbers;
use partitions::Partitions;
use retention::RetentionQueues;
use timer_events::TimerEvents;
use timers::Timers;

pub use effect::{Effect, Journal, TimedEffect};
pub use evict::Version;
pub use leases::Resume;
pub use record_table::{REMOVALS_MAX, RecordChange, RecordJournal, RecordTable};

/// How much a machine may hold. A call that would exceed a bound returns `Saturated`; a held key is never forgotten to
/// make space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Messages that are not Done.
    pub messages_max: u64,
    /// Keys and records of any kind, including Done ones.
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

/// The context of one operation: the time, new ids, and a journal for its effects.
pub struct CallContext<'a, P = Payload> {
    /// Store time; if it is earlier than in a previous call, the machine uses the previous time.
    pub now: Timestamp,
    /// Generates new uids.
    pub ids: &'a mut dyn IdSource,
    /// Receives every effect before it is applied.
    pub journal: &'a mut dyn Journal<P>,
}

/// All messages, keys and records of a store, in memory.
pub struct Machine<P = Payload> {
    capacity: Capacity,
    now: Timestamp,
    number_next: u64,
    fence_next: u64,
    version_next: u64,
    messages: Arena<Message<P>>,
    grants: Arena<StoredGrant>,
    keys: Keys,
    lanes: Lanes,
    partitions: Partitions,
    timers: Timers,
    retention_queues: RetentionQueues,
    /// Messages by number, for listings.
    numbers: Numbers,
    /// Current leases by the claim call that they were granted to.
    requests: BTreeMap<(Namespace, Owner, RequestId, Fence), Slot>,
    totals: Totals,
    records: RecordTable,
    /// Messages with a lower number than this are not delivered before this moment; see `hold_back`.
    held_back: (Number, Timestamp),
    /// Timer events since the last maintenance.
    timer_events: TimerEvents,
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
            retention_queues: RetentionQueues::default(),
            numbers: Numbers::default(),
            requests: BTreeMap::new(),
            totals: Totals::default(),
            records: RecordTable::default(),
            held_back: (Number(0), Timestamp::EPOCH),
            timer_events: TimerEvents::default(),
        }
    }

    /// Processes all timer events up to `context.now`, each at its own instant.
    fn advance(&mut self, context: &mut CallContext<'_, P>) {
        while !self.catch_up(context, u32::MAX) {}
    }

    /// Processes at most `events_max` timer events up to `context.now`, each at its own instant. Returns whether none
    /// are left. Every operation processes the rest first; a store with many due events may process them in batches
    /// before.
    pub fn catch_up(&mut self, context: &mut CallContext<'_, P>, events_max: u32) -> bool {
        context.now = context.now.max(self.now);
        for _ in 0..events_max {
            let Some((at, slot)) = self.timers.due(context.now) else {
                self.now = context.now;
                return true;
            };
            self.now = self.now.max(at);
            self.tick(context.journal, slot);
        }
        false
    }

    /// Processes the next timer event of one message: its lease lapses, it expires, or it becomes claimable.
    fn tick(&mut self, journal: &mut dyn Journal<P>, slot: Slot) {
        let message = &self.messages[slot];
        if self.is_leased(message) {
            let claimer = self.grants[message.grant].attempts_max;
            let exhausted = message.is_processing() && message.last_attempt(claimer);
            self.commit(journal, slot, Effect::Lapsed { exhausted });
        } else if message.is_processing() && message.expires <= self.now {
            self.commit(journal, slot, Effect::Expired);
        } else {
            self.reindex(slot, |_, _| ());
        }
    }

    /// Higher than every number assigned so far.
    pub fn next_number(&self) -> Number {
        Number(self.number_next)
    }

    /// Makes this the next number to assign. For stores that load only some of their messages into a machine: only they
    /// know which numbers are free.
    pub fn set_next_number(&mut self, next: Number) {
        self.number_next = next.0;
    }

    fn next_fence(&self) -> Fence {
        Fence::new(self.fence_next).expect("fences start at one")
    }

    /// A uid that no message in memory has.
    fn draw_uid(&self, context: &mut CallContext<'_, P>) -> Uid {
        const TRIES: u32 = 8;
        (0..TRIES)
            .map(|_| context.ids.next_uid(context.now))
            .find(|uid| self.find_uid(*uid).is_none())
            .expect("an id source does not repeat itself")
    }

    /// The usage of each bound: messages, keys, bytes.
    fn bounds(&self) -> [Bound; 3] {
        let Capacity { messages_max, keys_max, live_bytes_max } = self.capacity;
        [
            Bound::new(Bound::MESSAGES, self.totals.unfinished(), messages_max),
            Bound::new(Bound::KEYS, self.messages.len(), keys_max),
            Bound::new(Bound::LIVE_BYTES, self.totals.bytes(), live_bytes_max),
        ]
    }

    /// Checks whether one more message of `bytes` fits; otherwise returns when to retry and which bound is reached.
    fn check_capacity(&self, bytes: u64) -> Option<(Duration, Bound)> {
        let [messages, keys, _] = self.bounds();
        let full = [messages, keys].into_iter().find(|bound| bound.used >= bound.limit);
        full.map(|bound| (self.retry_hint(), bound)).or_else(|| self.check_bytes(bytes))
    }

    /// Checks whether `bytes` more fit; otherwise returns when to retry and which bound is reached.
    fn check_bytes(&self, bytes: u64) -> Option<(Duration, Bound)> {
        let [.., live_bytes] = self.bounds();
        (live_bytes.used + bytes > live_bytes.limit).then(|| (self.retry_hint(), live_bytes))
    }

    /// When to retry after a bound was reached: at the next moment a message is forgotten, within 1 s to 60 s.
    fn retry_hint(&self) -> Duration {
        const RETRY_MIN: Duration = Duration::from_secs(1);
        const RETRY_MAX: Duration = Duration::from_secs(60);
        let retry_after = self.retention_queues.next_forgotten().map_or(RETRY_MIN, |at| at.since(self.now));
        retry_after.clamp(RETRY_MIN, RETRY_MAX)
    }
}
