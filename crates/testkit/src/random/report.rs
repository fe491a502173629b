//! What a comparison exercised, and the report of the first difference.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;

use super::outcome::REACHABLE;

/// What one or more cases exercised.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ComparisonReport {
    /// Cases without a difference.
    pub cases: u64,
    /// Random operations by kind, and the calls of `get`, `with_key`, `page`, `ready_topics` and `topic_counts` that
    /// the reads among them made.
    pub operations: BTreeMap<&'static str, u64>,
    /// Outcomes of items, and other events worth reaching, by kind.
    pub outcomes: BTreeMap<&'static str, u64>,
}

impl ComparisonReport {
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

    /// The outcomes that a store without bounds can have and that were not reached.
    pub fn missing(&self) -> Vec<&'static str> {
        REACHABLE.iter().copied().filter(|kind| !self.outcomes.contains_key(kind)).collect()
    }
}

impl fmt::Display for ComparisonReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cases; {:?}; {:?}", self.cases, self.operations, self.outcomes)
    }
}

/// The first difference between a store and the model.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Mismatch {
    /// The seed of the case.
    pub seed: u64,
    /// The number of the call, from 0.
    pub step: u32,
    /// The call, without payloads.
    pub operation: String,
    /// The part of the call.
    pub context: String,
    /// What the model expects.
    pub expected: String,
    /// What the store returned.
    pub actual: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, operation, context, expected, actual } = self;
        writeln!(f, "the store differs from the model (reproduce with ONCEBOX_MODEL_SEED={seed})")?;
        writeln!(f, "step {step}: {operation}")?;
        writeln!(f, "{context}")?;
        writeln!(f, "expected: {expected}")?;
        write!(f, "actual: {actual}")
    }
}

impl Error for Mismatch {}
