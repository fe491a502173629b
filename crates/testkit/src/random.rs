//! The random comparison: runs the same random calls and time jumps on a store and on the [`Model`], and compares after
//! each call.
//!
//! The tests of a store invoke [`crate::random_comparison!`] once. `ONCEBOX_MODEL_CASES` sets the number of cases,
//! `ONCEBOX_MODEL_SEED` runs the case of one seed, or the given number of cases from that seed on.

mod compare;
mod items;
mod operation;
mod outcome;
mod reads;
mod record_ops;
mod report;
mod universe;

#[cfg(test)]
mod tests;

use std::env;

use crate::fixture::{Fixture, block_on};
use crate::model::Model;

use compare::Case;
use operation::Operation;
use universe::Universe;

pub use report::{ComparisonReport, Mismatch};

/// The number of calls after which everything that can be read is compared.
const STEPS_BETWEEN_READS: u32 = 8;
/// The probability of a time jump before a call.
const JUMP_PERCENT: u64 = 40;

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// The number of cases, each on a fresh store.
    pub cases: u64,
    /// The number of calls in each case.
    pub steps: u32,
    /// The seed of the first case; each following case has the next seed.
    pub seed: u64,
}

impl Extent {
    /// The extent of a default test run.
    pub const DEFAULT: Self = Self { cases: 256, steps: 200, seed: 0x0ECE_B0C5 };

    /// The default extent, with the overrides of `ONCEBOX_MODEL_CASES` and `ONCEBOX_MODEL_SEED`.
    ///
    /// # Panics
    /// If one of them is not an integer.
    pub fn from_environment() -> Self {
        Self::with_cases(Self::DEFAULT.cases)
    }

    /// The default extent with another number of cases, for slow stores, and with the overrides of the environment.
    ///
    /// # Panics
    /// As [`Self::from_environment`].
    pub fn with_cases(default_cases: u64) -> Self {
        let (cases, seed) = (variable("ONCEBOX_MODEL_CASES"), variable("ONCEBOX_MODEL_SEED"));
        let default_cases = if seed.is_some() { 1 } else { default_cases };
        Self {
            cases: cases.unwrap_or(default_cases),
            seed: seed.unwrap_or(Self::DEFAULT.seed),
            ..Self::DEFAULT
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not an integer: {text:?}")))
}

/// Runs one case: `steps` random calls on a fresh store and on the model.
///
/// The time of the fixture has to stand still between its jumps: the comparison is exact to the millisecond.
pub async fn random_comparison<F, Fut>(open: F, seed: u64, steps: u32) -> Result<ComparisonReport, Mismatch>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let fixture = open().await;
    let model = Model::new(fixture.time.now().await);
    let mut case =
        Case { fixture, model, universe: Universe::new(seed), report: ComparisonReport::default() };
    case.report.cases = 1;
    for step in 0..steps {
        if case.universe.chance(JUMP_PERCENT) {
            let by = case.universe.jump(&case.model);
            case.advance(by).await;
        }
        let mut operations = vec![case.universe.operation(&case.model)];
        if step % STEPS_BETWEEN_READS == 0 || step + 1 == steps {
            operations.push(Operation::Read);
        }
        for operation in operations {
            case.report.operation(operation.kind());
            let performed = case.perform(&operation).await;
            performed.map_err(|difference| difference.at(seed, step, &operation))?;
        }
    }
    let closed = case.perform(&Operation::Close).await;
    closed.map_err(|difference| difference.at(seed, steps, &Operation::Close))?;
    Ok(case.report)
}

/// Runs many cases and prints what they exercised.
///
/// # Panics
/// At the first difference, with the seed to reproduce it. Also if at least a default number of cases did not reach
/// every possible outcome: such a run proves too little.
pub fn run_many<F, Fut>(open: F, extent: Extent) -> ComparisonReport
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let mut report = ComparisonReport::default();
    for case in 0..extent.cases {
        let seed = extent.seed.wrapping_add(case);
        match block_on(random_comparison(&open, seed, extent.steps)) {
            Ok(case) => report.merge(&case),
            Err(mismatch) => panic!("{mismatch}"),
        }
    }
    println!("random comparison: {report}");
    let missing = report.missing();
    let enough = extent.cases >= Extent::DEFAULT.cases && extent.steps >= Extent::DEFAULT.steps;
    assert!(!enough || missing.is_empty(), "the random comparison never reached {missing:?}");
    report
}

/// Expands into a test `random_comparison` that compares a store with the naive model.
///
/// Takes the function that opens a fresh [`Fixture`](crate::Fixture), as `conformance!` does:
///
/// ```
/// # use oncebox_testkit::Fixture;
/// async fn open() -> Fixture {
///     # unreachable!()
///     // …
/// }
///
/// oncebox_testkit::random_comparison!(open);
/// ```
///
/// A second argument is the default number of cases, for slow stores.
#[macro_export]
macro_rules! random_comparison {
    ($open:expr) => {
        $crate::random_comparison!($open, $crate::random::Extent::DEFAULT.cases);
    };
    ($open:expr, $cases:expr) => {
        #[test]
        fn random_comparison() {
            $crate::random::run_many($open, $crate::random::Extent::with_cases($cases));
        }
    };
}
