//! Checks ledger keys: a processed key stays processed, and a key has one lease at a time.

use std::collections::HashMap;

use super::ServerTally;
use crate::{Result, Violation};

/// A lease on a key, from a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLease {
    /// The key.
    pub key: String,
    /// The lease id.
    pub id: String,
    /// When the lease expires.
    pub until: u64,
}

/// The result of a try-begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObservedBegin {
    /// The caller has the lease.
    Acquired(LedgerLease),
    /// Another caller has the lease.
    Busy,
    /// The key is processed.
    Processed,
}

#[derive(Debug, Default)]
struct Key {
    /// The lease that is certainly held, and until when.
    held: Option<(String, u64)>,
    mark_started: bool,
    processed: bool,
}

/// The history of all keys.
#[derive(Debug, Default)]
pub struct KeyHistory {
    all: HashMap<String, Key>,
    pub(super) tally: ServerTally,
}

impl KeyHistory {
    /// Records that a request for the key is about to be sent. Returns whether the key is known to be processed.
    pub fn before_call(&mut self, key: &str) -> bool {
        self.all.entry(key.to_owned()).or_default().processed
    }

    /// Records the response to a try-begin; `processed` is the result of [`KeyHistory::before_call`].
    pub fn after_begin(
        &mut self,
        key: &str,
        processed: bool,
        outcome: &ObservedBegin,
        now: u64,
    ) -> Result<()> {
        let known = self.all.entry(key.to_owned()).or_default();
        if processed && *outcome != ObservedBegin::Processed {
            return Err(Violation::new(format!(
                "key {key} was marked as processed, but try-begin returned {outcome:?}"
            )));
        }
        match outcome {
            ObservedBegin::Processed if !known.mark_started => {
                Err(Violation::new(format!("key {key} is processed, but no client marked it")))
            }
            ObservedBegin::Acquired(lease) => {
                self.tally.begun += 1;
                if let Some((other, until)) = &known.held
                    && *until > now
                    && lease.until > now
                {
                    return Err(Violation::new(format!(
                        "key {key} is leased twice at {now}: by {other} until {until}, and by {} until {}",
                        lease.id, lease.until
                    )));
                }
                known.held = Some((lease.id.clone(), lease.until));
                Ok(())
            }
            _ => {
                self.tally.refused += 1;
                Ok(())
            }
        }
    }

    /// Records that a mark or a release is about to be sent: from now on, no lease is certainly held.
    pub fn before_finish(&mut self, key: &str, lease_end: LeaseEnd) {
        let known = self.all.entry(key.to_owned()).or_default();
        known.held = None;
        known.mark_started |= lease_end == LeaseEnd::MarkProcessed;
    }

    /// Records the response to a mark.
    pub fn after_mark(&mut self, lease: &LedgerLease, applied: bool, now: u64) -> Result<()> {
        if !applied {
            return self.must_have_ended(lease, now, "marked");
        }
        self.tally.marks += 1;
        self.all.entry(lease.key.clone()).or_default().processed = true;
        Ok(())
    }

    /// Records the response to a release.
    pub fn after_release(&mut self, lease: &LedgerLease, applied: bool, now: u64) -> Result<()> {
        if !applied {
            return self.must_have_ended(lease, now, "released");
        }
        self.tally.releases += 1;
        Ok(())
    }

    /// Records the response to a get; `processed` is the result of [`KeyHistory::before_call`].
    pub fn after_get(&self, key: &str, processed: bool, status: &str) -> Result<()> {
        let known = self.all.get(key);
        if processed && status != "Processed" {
            return Err(Violation::new(format!(
                "key {key} was marked as processed, but its status is {status}"
            )));
        }
        if status == "Processed" && !known.is_some_and(|known| known.mark_started) {
            return Err(Violation::new(format!("key {key} is processed, but no client marked it")));
        }
        Ok(())
    }

    /// All keys that must be processed.
    pub fn processed(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter(|(_, key)| key.processed).map(|(name, _)| name.as_str())
    }

    fn must_have_ended(&mut self, lease: &LedgerLease, now: u64, verb: &str) -> Result<()> {
        if lease.until > now {
            return Err(Violation::new(format!(
                "key {} could not be {verb} at {now}, although its lease lasts until {}",
                lease.key, lease.until
            )));
        }
        self.tally.lost += 1;
        Ok(())
    }
}

/// How a request ends a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// Marks the key as processed.
    MarkProcessed,
    /// Releases the lease.
    Release,
}
