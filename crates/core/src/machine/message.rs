//! The in-memory form of a message: compact, because there may be millions.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use crate::annotation::{Attributes, LastError, Trace};
use crate::hash::{CallerHash, Fingerprint};
use crate::id::{Number, Uid};
use crate::key::Key;
use crate::message::{DeadReason, Divergence, Hold, Keep, MessageState, Policy, Seal};
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

/// The index that a message is in, besides the timers; see `membership.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    /// In a retention queue where it is required, or in no index.
    Retained,
    /// In its lane, claimable.
    Lane,
    /// In its partition's queue, which offers its first message to the lane.
    Queue,
    /// Leased, and counted among the named workers of its topic.
    WorkerList,
    /// In a retention queue, and no longer required; see `retention.rs`.
    Discardable,
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
    /// When it was finished or, while it is unfinished, when it may be delivered again; see `finished_at` and
    /// `retry_at`.
    pub(super) finished_or_retry_at: Timestamp,
    /// `NEVER` if it does not expire.
    pub(super) expires: Timestamp,
    /// Its entry in the timers; `NEVER` if it has none.
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
    pub(super) state: MessageState,
    pub(super) dead: Option<DeadReason>,
    divergence: Divergence,
    pub(super) keep_finished: bool,
    pub(super) keyed: bool,
    pub(super) membership: Membership,
    pub(super) class: Class,
}

/// Fields that most messages do not use.
#[derive(Default)]
pub(super) struct Rare {
    pub(super) due: Option<Timestamp>,
    pub(super) attributes: Attributes,
    pub(super) hash: Option<CallerHash>,
    pub(super) last_error: Option<LastError>,
    pub(super) redrives: u32,
}

impl Rare {
    /// The total size of its texts.
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

/// `None` is the window alone, the maximum is "until finished"; otherwise the duration plus one, so that zero can be
/// stored.
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
            finished_or_retry_at: Timestamp::EPOCH,
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
            state: MessageState::Seen,
            dead: None,
            divergence: policy.divergence,
            keep_finished: false,
            keyed: true,
            membership: Membership::Retained,
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

    /// Adopts the policy of its first content. A longer dedup window that was promised before is kept.
    pub(super) fn adopt_policy(&mut self, policy: &Policy) {
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
        let done_at = (self.state == MessageState::Done).then_some(self.finished_or_retry_at);
        self.hold().until(self.accepted_at, done_at)
    }

    /// Whether it holds its key at `now`, if it still has the key's entry.
    pub(super) fn holds_key(&self, now: Timestamp) -> bool {
        let by_message = match keep_of_millis(self.keep_ms) {
            Keep::Window => false,
            Keep::UntilFinished => !self.is_finished(),
            Keep::After(_) => self.state != MessageState::Done,
        };
        by_message || now < self.dedup_until()
    }

    pub(super) fn is_processing(&self) -> bool {
        self.state == MessageState::Processing
    }

    pub(super) fn has_content(&self) -> bool {
        self.payload.is_some()
    }

    /// Whether one more failed delivery makes it Dead, given the claimer's limit.
    pub(super) fn last_attempt(&self, claimer: Option<NonZeroU32>) -> bool {
        let limit = self.policy().attempts_limit(self.key.namespace, claimer);
        limit.is_some_and(|max| self.attempts.saturating_add(1) >= max.get())
    }

    /// `EPOCH` if it has no due time.
    pub(super) fn due(&self) -> Timestamp {
        self.rare.as_ref().and_then(|rare| rare.due).unwrap_or(Timestamp::EPOCH)
    }

    /// Sets when it may be delivered again. A finished message is not changed: a salvage may have lost the record that
    /// would have revived it.
    pub(super) fn retry(&mut self, at: Timestamp) {
        if !self.is_finished() {
            self.finished_or_retry_at = at;
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        matches!(self.state, MessageState::Done | MessageState::Dead)
    }

    /// `NEVER` while it is not finished.
    pub(super) fn finished_at(&self) -> Timestamp {
        if self.is_finished() { self.finished_or_retry_at } else { Timestamp::NEVER }
    }

    /// `EPOCH` if it has no retry time.
    pub(super) fn retry_at(&self) -> Timestamp {
        if self.is_finished() { Timestamp::EPOCH } else { self.finished_or_retry_at }
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

    /// Changes the rare fields, and keeps them only if one is still in use.
    pub(super) fn update_rare(&mut self, change: impl FnOnce(&mut Rare)) {
        let mut rare = self.rare.take().unwrap_or_default();
        change(&mut rare);
        self.rare = (!rare.is_empty()).then_some(rare);
    }
}
