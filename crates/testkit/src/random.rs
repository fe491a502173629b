//! The random comparison: the same random calls and time jumps for a store and for the [`Model`], compared after each.
//!
//! A store's test says [`crate::random_comparison!`] once. `ONCEBOX_MODEL_CASES` runs more (or fewer) cases,
//! `ONCEBOX_MODEL_SEED` runs the case of one seed, or as many cases as asked for from that seed on.

mod compare;
mod items;
mod operation;
mod outcome;
mod reads;
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

pub use report::{Mismatch, Report};

/// After so many calls everything that can be read is compared.
const STEPS_BETWEEN_READS: u32 = 8;
/// Time moves before a call in so many cases of a hundred.
const JUMP_PERCENT: u64 = 40;

/// How much is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Extent {
    /// So many cases, each on a fresh store.
    pub cases: u64,
    /// So many calls in each.
    pub steps: u32,
    /// The seed of the first case; each further one has the next.
    pub seed: u64,
}

impl Extent {
    /// What an ordinary test run does.
    pub const ORDINARY: Self = Self { cases: 256, steps: 200, seed: 0x0ECE_B0C5 };

    /// The ordinary extent, but for what `ONCEBOX_MODEL_CASES` and `ONCEBOX_MODEL_SEED` say.
    ///
    /// # Panics
    /// If one of them is not a whole number.
    pub fn from_environment() -> Self {
        Self::of_cases(Self::ORDINARY.cases)
    }

    /// So many cases of the ordinary extent, but for what the environment says: for stores that take their time.
    ///
    /// # Panics
    /// As [`Self::from_environment`].
    pub fn of_cases(ordinary_cases: u64) -> Self {
        let (cases, seed) = (variable("ONCEBOX_MODEL_CASES"), variable("ONCEBOX_MODEL_SEED"));
        let ordinary_cases = if seed.is_some() { 1 } else { ordinary_cases };
        Self {
            cases: cases.unwrap_or(ordinary_cases),
            seed: seed.unwrap_or(Self::ORDINARY.seed),
            ..Self::ORDINARY
        }
    }
}

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is not a whole number: {text:?}")))
}

/// Runs one case: `steps` random calls on a fresh store and on the model.
///
/// The time of the fixture has to stand still between its jumps: the comparison is exact to the millisecond.
pub async fn random_comparison<F, Fut>(open: F, seed: u64, steps: u32) -> Result<Report, Mismatch>
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let fixture = open().await;
    let model = Model::new(fixture.time.now().await);
    let mut case = Case { fixture, model, universe: Universe::new(seed), report: Report::default() };
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
/// At the first difference, with the seed that shows it again. Also if so many cases as an ordinary run has did not
/// reach every outcome there is: a pass without progress is no pass.
pub fn run_many<F, Fut>(open: F, extent: Extent) -> Report
where
    F: Fn() -> Fut,
    Fut: Future<Output = Fixture>,
{
    let mut report = Report::default();
    for case in 0..extent.cases {
        let seed = extent.seed.wrapping_add(case);
        match block_on(random_comparison(&open, seed, extent.steps)) {
            Ok(case) => report.merge(&case),
            Err(mismatch) => panic!("{mismatch}"),
        }
    }
    println!("random comparison: {report}");
    let missing = report.missing();
    let enough = extent.cases >= Extent::ORDINARY.cases && extent.steps >= Extent::ORDINARY.steps;
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
/// A second argument is how many cases an ordinary run compares, for stores that take their time.
#[macro_export]
macro_rules! random_comparison {
    ($open:expr) => {
        $crate::random_comparison!($open, $crate::random::Extent::ORDINARY.cases);
    };
    ($open:expr, $cases:expr) => {
        #[test]
        fn random_comparison() {
            $crate::random::run_many($open, $crate::random::Extent::of_cases($cases));
        }
    };
}
