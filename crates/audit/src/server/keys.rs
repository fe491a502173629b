//! Keys of the ledger: a processed one stays processed, and nobody shares a lease.

use std::collections::HashMap;

use super::Tally;
use crate::{Fault, Result};

/// A lease on a key, as it was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerLease {
    /// The key.
    pub key: String,
    /// Its name.
    pub id: String,
    /// When it ends by itself.
    pub until: u64,
}

/// What a wish to begin was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Began {
    /// The lease is the asker's.
    Acquired(LedgerLease),
    /// Somebody has one.
    Busy,
    /// The key was processed.
    Processed,
}

#[derive(Debug, Default)]
struct Key {
    /// Who certainly has it, and until when.
    held: Option<(String, u64)>,
    mark_asked: bool,
    processed: bool,
}

/// All keys that were asked for.
#[derive(Debug, Default)]
pub struct Keys {
    all: HashMap<String, Key>,
    pub(super) tally: Tally,
}

impl Keys {
    /// Somebody is about to ask about the key; tells whether it is known to be processed.
    pub fn asks(&mut self, key: &str) -> bool {
        self.all.entry(key.to_owned()).or_default().processed
    }

    /// A wish to begin was answered; `processed` is what [`Keys::asks`] told.
    pub fn begun(&mut self, key: &str, processed: bool, began: &Began, now: u64) -> Result<()> {
        let known = self.all.entry(key.to_owned()).or_default();
        if processed && *began != Began::Processed {
            return Err(Fault::new(format!("key {key} was marked as processed, and then begun: {began:?}")));
        }
        match began {
            Began::Processed if !known.mark_asked => {
                Err(Fault::new(format!("key {key} is processed, and nobody marked it")))
            }
            Began::Acquired(lease) => {
                self.tally.begun += 1;
                if let Some((other, until)) = &known.held
                    && *until > now
                    && lease.until > now
                {
                    return Err(Fault::new(format!(
                        "key {key} is leased twice at {now}: {other} has it until {until}, {} until {}",
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

    /// Somebody is about to mark the key, or to give the lease back: from now on nobody certainly has it.
    pub fn asks_end(&mut self, key: &str, marks: Marks) {
        let known = self.all.entry(key.to_owned()).or_default();
        known.held = None;
        known.mark_asked |= marks == Marks::Yes;
    }

    /// A mark was answered.
    pub fn marked(&mut self, lease: &LedgerLease, counts: bool, now: u64) -> Result<()> {
        if !counts {
            return self.must_have_ended(lease, now, "marked");
        }
        self.tally.marks += 1;
        self.all.entry(lease.key.clone()).or_default().processed = true;
        Ok(())
    }

    /// A wish to give a lease back was answered.
    pub fn released(&mut self, lease: &LedgerLease, counts: bool, now: u64) -> Result<()> {
        if !counts {
            return self.must_have_ended(lease, now, "released");
        }
        self.tally.releases += 1;
        Ok(())
    }

    /// A key was looked at; `processed` is what [`Keys::asks`] told.
    pub fn found(&self, key: &str, processed: bool, status: &str) -> Result<()> {
        let known = self.all.get(key);
        if processed && status != "Processed" {
            return Err(Fault::new(format!("key {key} was marked as processed, and is {status}")));
        }
        if status == "Processed" && !known.is_some_and(|known| known.mark_asked) {
            return Err(Fault::new(format!("key {key} is processed, and nobody marked it")));
        }
        Ok(())
    }

    /// Every key that must be processed.
    pub fn processed(&self) -> impl Iterator<Item = &str> {
        self.all.iter().filter(|(_, key)| key.processed).map(|(name, _)| name.as_str())
    }

    fn must_have_ended(&mut self, lease: &LedgerLease, now: u64, verb: &str) -> Result<()> {
        if lease.until > now {
            return Err(Fault::new(format!(
                "key {} could not be {verb} at {now}, under a lease until {}",
                lease.key, lease.until
            )));
        }
        self.tally.lost += 1;
        Ok(())
    }
}

/// Whether a request marks its key as processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// It does.
    Yes,
    /// It gives the lease back.
    No,
}
