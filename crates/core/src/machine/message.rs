//! A message as it lies in memory: small, because there may be millions.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use crate::annotation::{Attributes, LastError, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Number, Uid};
use crate::key::Key;
use crate::message::{DeadReason, Divergence, Hold, Keep, Policy, Seal, State};
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

/// Where a message is kept besides the arena; see `place.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Nowhere but, perhaps, in the timers or on a shelf.
    Aside,
    /// In its lane, claimable.
    Lane,
    /// In its partition's queue, which puts its first message into the lane.
    Queue,
    /// Leased to a worker with a name, who is among the workers of its topic.
    Named,
    /// On a shelf that need not keep it any longer; see `retention.rs`.
    Free,
}

pub(super) struct Message<P> {
    pub(super) uid: Uid,
    pub(super) number: Number,
    pub(super) version: u64,
    pub(super) key: Key,
    /// See `Keys`.
    pub(super) key_hash: u32,
    pub(super) payload: Option<P>,
    pub(super) trace: Trace,
    pub(super) rare: Option<Box<Rare>>,
    pub(super) seal: Option<Box<Seal>>,
    pub(super) accepted_at: Timestamp,
    pub(super) last_seen_at: Timestamp,
    /// When it was finished or, while it is not, when it may be given out again; see `finished_at` and `retry_at`.
    pub(super) moment: Timestamp,
    /// `NEVER` if it does not expire.
    pub(super) expires: Timestamp,
    /// When it is in the timers; `NEVER` if it is not.
    pub(super) timer: Timestamp,
    window_ms: u64,
    /// See `keep_to_millis`.
    keep_ms: Option<NonZeroU64>,
    /// What the byte bound charges for it.
    pub(super) charged: u32,
    pub(super) attempts: u32,
    pub(super) deliveries: u32,
    attempts_max: Option<NonZeroU32>,
    /// Its lane, while it has content.
    pub(super) lane: Slot,
    /// The partition of its content.
    pub(super) partition: Slot,
    pub(super) grant: Slot,
    pub(super) fingerprint: Option<Fingerprint>,
    pub(super) state: State,
    pub(super) dead: Option<DeadReason>,
    divergence: Divergence,
    pub(super) keep_finished: bool,
    pub(super) keyed: bool,
    pub(super) place: Place,
    pub(super) class: Class,
}

/// What most messages do not have.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) due: Option<Timestamp>,
    pub(super) attributes: Attributes,
    pub(super) hash: Option<CallerHash>,
    pub(super) last_error: Option<LastError>,
    pub(super) redrives: u32,
}

impl Rare {
    /// Bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        let hash = self.hash.as_ref().map_or(0, CallerHash::bytes);
        let error = self.last_error.as_ref().map_or(0, |error| error.as_str().len());
        self.attributes.bytes() + hash + error
    }

    fn is_empty(&self) -> bool {
        let Self { due, attributes, hash, last_error, redrives } = self;
        due.is_none() && attributes.is_empty() && hash.is_none() && last_error.is_none() && *redrives == 0
    }
}

/// None is the window alone, the greatest "until finished"; else one more than the duration, so that zero fits beside them.
fn keep_to_millis(keep: Keep) -> Option<NonZeroU64> {
    match keep {
        Keep::Window => None,
        Keep::UntilFinished => Some(NonZeroU64::MAX),
        Keep::After(keep) => NonZeroU64::new(millis(keep).min(u64::MAX - 2) + 1),
    }
}

fn keep_of_millis(millis: Option<NonZeroU64>) -> Keep {
    match millis {
        None => Keep::Window,
        Some(NonZeroU64::MAX) => Keep::UntilFinished,
        Some(millis) => Keep::After(Duration::from_millis(millis.get() - 1)),
    }
}

fn millis(duration: Duration) -> u64 {
    Timestamp::EPOCH.after(duration).as_millis()
}

impl<P> Message<P> {
    /// A message without content.
    pub(super) fn new(
        uid: Uid,
        number: Number,
        key: Key,
        key_hash: u32,
        policy: &Policy,
        now: Timestamp,
    ) -> Self {
        let mut message = Self {
            uid,
            number,
            version: 0,
            key,
            key_hash,
            payload: None,
            trace: Trace::default(),
            rare: None,
            seal: None,
            accepted_at: now,
            last_seen_at: now,
            moment: Timestamp::EPOCH,
            expires: Timestamp::NEVER,
            timer: Timestamp::NEVER,
            window_ms: 0,
            keep_ms: None,
            charged: 0,
            attempts: 0,
            deliveries: 0,
            attempts_max: None,
            lane: Slot::NONE,
            partition: Slot::NONE,
            grant: Slot::NONE,
            fingerprint: None,
            state: State::Seen,
            dead: None,
            divergence: policy.divergence,
            keep_finished: false,
            keyed: true,
            place: Place::Aside,
            class: Class::Seen,
        };
        message.set_policy(policy);
        message
    }

    pub(super) fn set_policy(&mut self, policy: &Policy) {
        self.window_ms = millis(policy.hold.window);
        self.keep_ms = keep_to_millis(policy.hold.keep);
        self.attempts_max = policy.attempts_max;
        self.divergence = policy.divergence;
        self.keep_finished = policy.keep_finished;
    }

    /// Takes the policy of the first content over. What was promised before is kept.
    pub(super) fn take_policy(&mut self, policy: &Policy) {
        let promised_ms = self.dedup_until().as_millis().saturating_sub(self.accepted_at.as_millis());
        self.set_policy(policy);
        self.window_ms = self.window_ms.max(promised_ms);
    }

    pub(super) fn spend_attempt(&mut self) {
        self.attempts = self.attempts.saturating_add(1);
    }

    pub(super) fn policy(&self) -> Policy {
        Policy {
            attempts_max: self.attempts_max,
            hold: self.hold(),
            divergence: self.divergence,
            keep_finished: self.keep_finished,
        }
    }

    fn hold(&self) -> Hold {
        Hold { window: Duration::from_millis(self.window_ms), keep: keep_of_millis(self.keep_ms) }
    }

    /// Until when its key is held, at least.
    pub(super) fn dedup_until(&self) -> Timestamp {
        let done_at = (self.state == State::Done).then_some(self.moment);
        self.hold().until(self.accepted_at, done_at)
    }

    /// Whether it holds its key at `now`, if it still has the key's entry.
    pub(super) fn holds_key(&self, now: Timestamp) -> bool {
        let by_message = match keep_of_millis(self.keep_ms) {
            Keep::Window => false,
            Keep::UntilFinished => !self.is_finished(),
            Keep::After(_) => self.state != State::Done,
        };
        by_message || now < self.dedup_until()
    }

    pub(super) fn is_processing(&self) -> bool {
        self.state == State::Processing
    }

    pub(super) fn has_content(&self) -> bool {
        self.payload.is_some()
    }

    /// Whether one more bad end makes it Dead, if its claimer brought this limit.
    pub(super) fn last_attempt(&self, claimer: Option<NonZeroU32>) -> bool {
        let limit = self.policy().attempts_limit(self.key.namespace, claimer);
        limit.is_some_and(|max| self.attempts.saturating_add(1) >= max.get())
    }

    /// `EPOCH` if it has no due time.
    pub(super) fn due(&self) -> Timestamp {
        self.rare.as_ref().and_then(|rare| rare.due).unwrap_or(Timestamp::EPOCH)
    }

    /// It may be given out again then. What is finished stays so: a salvage may have lost what would have revived it.
    pub(super) fn retry(&mut self, at: Timestamp) {
        if !self.is_finished() {
            self.moment = at;
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, State::Done | State::Dead)
    }

    /// `NEVER` while it is not finished.
    pub(super) fn finished_at(&self) -> Timestamp {
        if self.is_finished() { self.moment } else { Timestamp::NEVER }
    }

    /// `EPOCH` if it is not retried.
    pub(super) fn retry_at(&self) -> Timestamp {
        if self.is_finished() { Timestamp::EPOCH } else { self.moment }
    }

    /// How often it was redriven.
    pub(super) fn redrives(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.redrives)
    }

    pub(super) fn hash(&self) -> Option<&CallerHash> {
        self.rare.as_ref()?.hash.as_ref()
    }

    pub(super) fn payload_bytes(&self) -> u64
    where
        P: PayloadHandle,
    {
        self.payload.as_ref().map_or(0, |payload| payload.bytes().into())
    }

    /// Changes what is rare, and keeps it only if something is left.
    pub(super) fn change_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare.take().unwrap_or_default();
        change(&mut rare);
        self.rare = (!rare.is_empty()).then_some(rare);
    }
}
