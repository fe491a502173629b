//! The naive model: `docs/reference/semantics.md` in code, with plain vectors and scans. Clear above all, and slow.
//!
//! A store is free to make a few choices: the uids and fences that it generates, the numbers that it assigns, the lane
//! that it serves next. The model receives what the store returned, adopts the choices in it if they are legal, and
//! computes the complete expected result.

mod accept;
mod choices;
mod claims;
mod facts;
mod leases;
mod maintenance;
mod operate;
mod read;
mod records;

#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use oncebox_core::{
    DeadReason, Fence, GrantEnd, Key, LastError, MessageRef, MessageState, MessageSummary, Namespace, Number,
    Policy, Snapshot, Timestamp, Trace, Uid,
};

use facts::Facts;

/// An illegal choice of a store, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal(String);

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The expected state and results of a store. Its methods are those of [`oncebox_core::Store`], one item at a time.
#[derive(Debug, Clone)]
pub struct Model {
    now: Timestamp,
    rows: Vec<Row>,
    numbers_assigned: u64,
    /// Every uid that a message ever had.
    uids: Vec<Uid>,
    /// Every fence that was ever granted, with its message.
    fences: Vec<(Uid, Fence)>,
    records: Vec<records::KindRecord>,
    /// The version of the last write in each kind.
    record_versions: BTreeMap<&'static str, u64>,
}

/// A message, and what cannot be read from it.
#[derive(Debug, Clone)]
struct Row {
    /// The message, with a number of the model's own, and `keyed` until a later message takes its key over.
    message: Snapshot,
    /// The number that the store assigned, once the store has returned it.
    store_number: Option<Number>,
}

impl Model {
    /// An empty store at this time.
    pub fn new(now: Timestamp) -> Self {
        Self {
            now,
            rows: Vec::new(),
            numbers_assigned: 0,
            uids: Vec::new(),
            fences: Vec::new(),
            records: Vec::new(),
            record_versions: BTreeMap::new(),
        }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Every uid that a message ever had, in order of first use.
    pub fn uids(&self) -> &[Uid] {
        &self.uids
    }

    /// Advances time; all timer events happen in order, each at its own instant.
    pub fn advance_to(&mut self, now: Timestamp) {
        while let Some((at, index)) = self.next_event().filter(|(at, _)| *at <= now) {
            self.now = at;
            let leased = self.rows[index].message.is_leased();
            if leased { self.lapse(index) } else { self.die(index, DeadReason::Expired) }
        }
        self.now = now;
    }

    /// Processes the timer events that the previous item caused: it may have written an expiry in the past.
    fn catch_up(&mut self) {
        self.advance_to(self.now);
    }

    /// The next end of a lease or expiry, and the message.
    fn next_event(&self) -> Option<(Timestamp, usize)> {
        let events = self.rows.iter().enumerate().filter_map(|(index, row)| {
            let at = row.message.next_event()?;
            Some((at.max(self.now), index))
        });
        events.min()
    }

    /// A lease lapses: an attempt is spent.
    fn lapse(&mut self, index: usize) {
        let claimer = self.claimer_limit(index);
        self.end_grant(index, GrantEnd::Lost);
        let message = &mut self.rows[index].message;
        if message.content.is_some() {
            message.last_error = Some(LastError::lapsed());
        }
        self.spend_attempt(index, claimer);
    }

    /// The limit of attempts of the current lease.
    fn claimer_limit(&self, index: usize) -> Option<NonZeroU32> {
        self.rows[index].message.current().and_then(|grant| grant.attempts_max)
    }

    /// Counts a failed delivery; at the limit the message becomes Dead. The sender's limit takes precedence over the
    /// claimer's.
    fn spend_attempt(&mut self, index: usize, claimer: Option<NonZeroU32>) {
        let message = &mut self.rows[index].message;
        message.attempts += 1;
        let default = match message.key.namespace {
            Namespace::Inbox => NonZeroU32::new(10),
            Namespace::Commands => NonZeroU32::new(5),
            Namespace::Mailbox => NonZeroU32::new(16),
            _ => None,
        };
        let limit = message.policy.attempts_max.or(claimer).or(default);
        let exhausted = limit.is_some_and(|max| message.attempts >= max.get());
        if exhausted && message.state == MessageState::Processing {
            self.die(index, DeadReason::Exhausted);
        }
    }

    /// Makes the message Dead.
    fn die(&mut self, index: usize, reason: DeadReason) {
        let message = &mut self.rows[index].message;
        message.state = MessageState::Dead;
        message.dead = Some(reason);
        message.finished_at = Some(self.now);
        message.retry_at = None;
    }

    /// Makes the message Done.
    fn finish(&mut self, index: usize) {
        let message = &mut self.rows[index].message;
        message.state = MessageState::Done;
        message.dead = None;
        message.finished_at = Some(self.now);
        message.retry_at = None;
        if !message.policy.keep_finished {
            message.content = None;
            message.last_error = None;
        }
    }

    /// Ends the newest lease if it is current.
    fn end_grant(&mut self, index: usize, end: GrantEnd) {
        if let Some(grant) = self.rows[index].message.grant.as_mut().filter(|grant| grant.end.is_none()) {
            grant.end = Some(end);
            grant.attempts_max = None;
        }
    }

    /// Adds a message that is Seen and holds the key.
    fn add(&mut self, uid: Uid, key: &Key, policy: Policy) -> usize {
        for row in self.rows.iter_mut().filter(|row| row.message.key == *key) {
            row.message.keyed = false;
        }
        if !self.uids.contains(&uid) {
            self.uids.push(uid);
        }
        let message = Snapshot {
            uid,
            number: Number(0),
            key: key.clone(),
            keyed: true,
            state: MessageState::Seen,
            dead: None,
            content: None,
            fingerprint: None,
            hash: None,
            trace: Trace::default(),
            policy,
            accepted_at: self.now,
            last_seen_at: self.now,
            finished_at: None,
            retry_at: None,
            attempts: 0,
            deliveries: 0,
            redrives: 0,
            last_error: None,
            grant: None,
        };
        self.rows.push(Row { message, store_number: None });
        self.renumber(self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// Assigns the next number to a message.
    fn renumber(&mut self, index: usize) {
        self.numbers_assigned += 1;
        let row = &mut self.rows[index];
        row.message.number = Number(self.numbers_assigned);
        row.store_number = None;
    }

    fn find(&self, target: &MessageRef) -> Option<usize> {
        match target {
            MessageRef::Uid(uid) => self.find_uid(*uid),
            MessageRef::Key(key) => self.find_holder(key),
        }
    }

    fn find_uid(&self, uid: Uid) -> Option<usize> {
        self.rows.iter().position(|row| row.message.uid == uid)
    }

    fn find_holder(&self, key: &Key) -> Option<usize> {
        self.rows.iter().position(|row| row.message.key == *key && row.message.holds_key(self.now))
    }

    fn summary(&self, index: usize) -> MessageSummary {
        let message = &self.rows[index].message;
        MessageSummary {
            uid: message.uid,
            accepted_at: message.accepted_at,
            dedup_until: message.held_until(),
            state: message.state,
            trace: message.trace.clone(),
        }
    }
}
