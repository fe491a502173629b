//! What was seen, in numbers.

use std::fmt;

use super::book::{Book, Message, Settle};
use super::line::Verdict;
use super::rows::{DONE, Row};

/// How often each thing was answered, and what is there in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that were not.
    pub unanswered: u64,
    /// Sends that took a message in.
    pub accepted: u64,
    /// Sends of a message that had come before.
    pub duplicates: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries after the first of their message.
    pub redeliveries: u64,
    /// Deliveries that nobody saw, because who asked for them was dead or cut off.
    pub unseen: u64,
    /// Deliveries that nobody settled.
    pub lapsed: u64,
    /// Settlements that count: acknowledged, abandoned, released, failed. Repeats too.
    pub settled: [u64; 4],
    /// Extensions that count.
    pub extended: u64,
    /// Settlements and extensions that were refused.
    pub refused: u64,
    /// Messages that are done.
    pub done: u64,
    /// Messages that are dead.
    pub dead: u64,
}

impl Tally {
    pub(super) fn new(book: &Book) -> Self {
        Self { answered: book.answered.len() as u64, unanswered: book.unanswered, ..Self::default() }
    }

    pub(super) fn count(&mut self, message: &Message, row: Option<&Row>) {
        for taken in message.accepts.iter().filter_map(|accept| accept.answer.as_ref()) {
            *(if taken.is_new { &mut self.accepted } else { &mut self.duplicates }) += 1;
        }
        let grants = message.grants.len() as u64;
        self.deliveries += grants;
        self.redeliveries += message.grants.values().filter(|grant| grant.deliveries > 1).count() as u64;
        for grant in message.grants.values() {
            let is = |settle: &&Settle, counts| settle.answer.is_some_and(|(_, told)| told == counts);
            let counted =
                |verdict| grant.settles.iter().filter(|one| one.verdict == verdict && is(one, true)).count();
            let verdicts = [Verdict::Ack, Verdict::Abandon, Verdict::Release, Verdict::Fail];
            for (sum, verdict) in self.settled.iter_mut().zip(verdicts) {
                *sum += counted(verdict) as u64;
            }
            self.refused += grant.settles.iter().filter(|settle| is(settle, false)).count() as u64;
            self.lapsed += u64::from(grant.settles.is_empty());
            for (_, counts) in grant.extends.iter().filter_map(|extend| extend.answer) {
                *(if counts { &mut self.extended } else { &mut self.refused }) += 1;
            }
        }
        if let Some(row) = row {
            self.unseen += row.deliveries.saturating_sub(grants);
            *(if row.state == DONE { &mut self.done } else { &mut self.dead }) += 1;
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [acks, abandoned, released, failed] = self.settled;
        write!(
            f,
            "{} calls answered, {} not; {} messages taken in, {} duplicates known; {} deliveries ({} repeated, {} not settled), \
             {} more that nobody saw; {acks} acks, {abandoned} abandoned, {released} released, {failed} failed, {} extended, \
             {} refused; in the end {} done, {} dead",
            self.answered,
            self.unanswered,
            self.accepted,
            self.duplicates,
            self.deliveries,
            self.redeliveries,
            self.lapsed,
            self.unseen,
            self.extended,
            self.refused,
            self.done,
            self.dead
        )
    }
}
