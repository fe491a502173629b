//! Counters for the summary.

use std::fmt;

use super::history::{History, Message, Settle};
use super::protocol::Verdict;
use super::rows::{DONE, Row};

/// Number of calls, deliveries and settlements by kind, and the final states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkersTally {
    /// Calls that were answered.
    pub answered: u64,
    /// Calls that failed or were not answered.
    pub unanswered: u64,
    /// Sends that were accepted as new.
    pub accepted: u64,
    /// Sends that were answered as duplicates.
    pub duplicates: u64,
    /// Deliveries.
    pub deliveries: u64,
    /// Deliveries after the first of their message.
    pub redeliveries: u64,
    /// Deliveries whose answer was lost, because the process was killed or its connection terminated.
    pub unseen: u64,
    /// Deliveries that were never settled.
    pub lapsed: u64,
    /// Settlements that were applied: acknowledged, abandoned, released, failed; repeats included.
    pub settled: [u64; 4],
    /// Extensions that were applied.
    pub extended: u64,
    /// Settlements and extensions that were rejected.
    pub rejected: u64,
    /// Messages that are done.
    pub done: u64,
    /// Messages that are dead.
    pub dead: u64,
}

impl WorkersTally {
    pub(super) fn new(history: &History) -> Self {
        Self { answered: history.answered.len() as u64, unanswered: history.unanswered, ..Self::default() }
    }

    pub(super) fn count(&mut self, message: &Message, row: Option<&Row>) {
        for answer in message.accepts.iter().filter_map(|accept| accept.answer.as_ref()) {
            *(if answer.is_new { &mut self.accepted } else { &mut self.duplicates }) += 1;
        }
        let grants = message.grants.len() as u64;
        self.deliveries += grants;
        self.redeliveries += message.grants.values().filter(|grant| grant.deliveries > 1).count() as u64;
        for grant in message.grants.values() {
            let is =
                |settle: &&Settle, expected| settle.answer.is_some_and(|(_, applied)| applied == expected);
            let counted =
                |verdict| grant.settles.iter().filter(|one| one.verdict == verdict && is(one, true)).count();
            let verdicts = [Verdict::Ack, Verdict::Abandon, Verdict::Release, Verdict::Fail];
            for (sum, verdict) in self.settled.iter_mut().zip(verdicts) {
                *sum += counted(verdict) as u64;
            }
            self.rejected += grant.settles.iter().filter(|settle| is(settle, false)).count() as u64;
            self.lapsed += u64::from(grant.settles.is_empty());
            for (_, applied) in grant.extends.iter().filter_map(|extend| extend.answer) {
                *(if applied { &mut self.extended } else { &mut self.rejected }) += 1;
            }
        }
        if let Some(row) = row {
            self.unseen += row.deliveries.saturating_sub(grants);
            *(if row.state == DONE { &mut self.done } else { &mut self.dead }) += 1;
        }
    }
}

impl fmt::Display for WorkersTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [acks, abandoned, released, failed] = self.settled;
        write!(
            f,
            "{} calls answered, {} not; {} messages accepted, {} duplicates; {} deliveries ({} repeated, {} not settled), \
             {} with lost answers; {acks} acks, {abandoned} abandoned, {released} released, {failed} failed, {} extended, \
             {} rejected; finally {} done, {} dead",
            self.answered,
            self.unanswered,
            self.accepted,
            self.duplicates,
            self.deliveries,
            self.redeliveries,
            self.lapsed,
            self.unseen,
            self.extended,
            self.rejected,
            self.done,
            self.dead
        )
    }
}
