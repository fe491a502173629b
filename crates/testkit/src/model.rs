//! The naive model: `docs/reference/semantics.md` in code, with plain vectors and scans. Obvious before all, and slow.
//!
//! A store is free in a few choices: the uids and fences that it draws, the numbers it counts with, the lane it serves
//! next. The model is *told* what the store answered, takes over the choices in it if they are legal, and says what the
//! whole answer has to be.

mod choices;
mod claims;
mod facts;
mod intake;
mod leases;
mod operating;
mod reading;
mod upkeep;

#[cfg(test)]
pub(crate) mod tests;

use std::fmt;
use std::num::NonZeroU32;

use oncebox_core::{
    DeadReason, Fence, GrantEnd, Key, LastError, Namespace, Number, Policy, Receipt, Ref, Snapshot, State,
    Timestamp, Trace, Uid,
};

use facts::Facts;

/// A choice that no store may make; says what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Illegal(String);

impl fmt::Display for Illegal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a store has to hold and to answer. Its methods are those of the port, one item at a time.
#[derive(Debug, Clone)]
pub struct Model {
    now: Timestamp,
    rows: Vec<Row>,
    numbers_given: u64,
    /// Every uid that a message ever had.
    uids: Vec<Uid>,
    /// Every fence that was ever granted, with the message it was granted for.
    fences: Vec<(Uid, Fence)>,
}

/// A message, and what is not to be read from it.
#[derive(Debug, Clone)]
struct Row {
    /// The message, with a number of the model's own count, and `keyed` until a later message takes its key over.
    message: Snapshot,
    /// The number that the store gave it, once the store has told.
    told: Option<Number>,
}

impl Model {
    /// An empty store at this moment.
    pub fn new(now: Timestamp) -> Self {
        Self { now, rows: Vec::new(), numbers_given: 0, uids: Vec::new(), fences: Vec::new() }
    }

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Every uid that a message ever had, in order of first use.
    pub fn uids(&self) -> &[Uid] {
        &self.uids
    }

    /// Moves time forward; everything that it brings happens in order, each at its own instant.
    pub fn pass_to(&mut self, now: Timestamp) {
        while let Some((at, index)) = self.next_event().filter(|(at, _)| *at <= now) {
            self.now = at;
            let leased = self.rows[index].message.is_leased();
            if leased { self.lapse(index) } else { self.die(index, DeadReason::Expired) }
        }
        self.now = now;
    }

    /// Lets happen what the item before has made inevitable: it may have written an expiry that is past.
    fn catch_up(&mut self) {
        self.pass_to(self.now);
    }

    /// The next end of a lease or expiry, and whose it is.
    fn next_event(&self) -> Option<(Timestamp, usize)> {
        let events = self.rows.iter().enumerate().filter_map(|(index, row)| {
            let at = row.message.next_event()?;
            Some((at.max(self.now), index))
        });
        events.min()
    }

    /// Time ends a lease: an attempt is spent.
    fn lapse(&mut self, index: usize) {
        let claimer = self.claimer_limit(index);
        self.end_grant(index, GrantEnd::Lost);
        let message = &mut self.rows[index].message;
        if message.content.is_some() {
            message.last_error = Some(LastError::lapsed());
        }
        self.spend_attempt(index, claimer);
    }

    /// The limit of attempts that came with the current lease.
    fn claimer_limit(&self, index: usize) -> Option<NonZeroU32> {
        self.rows[index].message.current().and_then(|grant| grant.attempts_max)
    }

    /// Counts a delivery that ended badly; at the limit the message dies of it. The sender's limit comes before the claimer's.
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
        if exhausted && message.state == State::Processing {
            self.die(index, DeadReason::Exhausted);
        }
    }

    /// The message becomes Dead now.
    fn die(&mut self, index: usize, reason: DeadReason) {
        let message = &mut self.rows[index].message;
        message.state = State::Dead;
        message.dead = Some(reason);
        message.finished_at = Some(self.now);
        message.retry_at = None;
    }

    /// The message becomes Done now.
    fn finish(&mut self, index: usize) {
        let message = &mut self.rows[index].message;
        message.state = State::Done;
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

    /// Adds a message that is Seen and takes the key over.
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
            state: State::Seen,
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
        self.rows.push(Row { message, told: None });
        self.renumber(self.rows.len() - 1);
        self.rows.len() - 1
    }

    /// Gives a message the next number.
    fn renumber(&mut self, index: usize) {
        self.numbers_given += 1;
        let row = &mut self.rows[index];
        row.message.number = Number(self.numbers_given);
        row.told = None;
    }

    fn find(&self, target: &Ref) -> Option<usize> {
        match target {
            Ref::Uid(uid) => self.find_uid(*uid),
            Ref::Key(key) => self.find_holder(key),
        }
    }

    fn find_uid(&self, uid: Uid) -> Option<usize> {
        self.rows.iter().position(|row| row.message.uid == uid)
    }

    fn find_holder(&self, key: &Key) -> Option<usize> {
        self.rows.iter().position(|row| row.message.key == *key && row.message.holds_key(self.now))
    }

    fn receipt(&self, index: usize) -> Receipt {
        let message = &self.rows[index].message;
        Receipt {
            uid: message.uid,
            accepted_at: message.accepted_at,
            dedup_until: message.held_until(),
            state: message.state,
            trace: message.trace.clone(),
        }
    }
}
