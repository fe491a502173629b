//! What a comparison exercised, and what it says at the first difference.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use super::outcome::REACHABLE;

/// What one or more cases exercised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Cases without a difference.
    pub cases: u64,
    /// Random operations by kind, and the calls of `get`, `with_key`, `page`, `ready_topics` and `topic_counts` that the reads among them
    /// made.
    pub operations: BTreeMap<&'static str, u64>,
    /// Outcomes of items, and other things worth reaching, by kind.
    pub outcomes: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(super) fn operation(&mut self, kind: &'static str) {
        *self.operations.entry(kind).or_default() += 1;
    }

    pub(super) fn outcome(&mut self, kind: &'static str) {
        *self.outcomes.entry(kind).or_default() += 1;
    }

    /// Adds what other cases exercised.
    pub fn merge(&mut self, other: &Self) {
        self.cases += other.cases;
        for (kind, count) in &other.operations {
            *self.operations.entry(kind).or_default() += count;
        }
        for (kind, count) in &other.outcomes {
            *self.outcomes.entry(kind).or_default() += count;
        }
    }

    /// The outcomes that a store without bounds can give and that were not reached.
    pub fn missing(&self) -> Vec<&'static str> {
        REACHABLE.iter().copied().filter(|kind| !self.outcomes.contains_key(kind)).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases; {:?}; {:?}", self.cases, self.operations, self.outcomes)
    }
}

/// The first difference between a store and the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The seed of the case that shows it.
    pub seed: u64,
    /// The call that shows it, counted from 0.
    pub step: u32,
    /// That call, without payloads.
    pub operation: String,
    /// Where in the call.
    pub place: String,
    /// What the model expects.
    pub expected: String,
    /// What the store answered.
    pub actual: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, operation, place, expected, actual } = self;
        writeln!(f, "the store differs from the model (show again: ONCEBOX_MODEL_SEED={seed})")?;
        writeln!(f, "step {step}: {operation}")?;
        writeln!(f, "{place}")?;
        writeln!(f, "expected: {expected}")?;
        write!(f, "actual: {actual}")
    }
}

impl Error for Mismatch {}
