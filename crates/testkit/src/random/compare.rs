//! Runs one call on the store, then on the model with the store's outcome, and compares.

use std::fmt::Debug;
use std::time::Duration;

use oncebox_core::{Begun, Budget, Claim, Delivery, Error, Operated, Scope, Settled, Settlement};

use super::operation::Operation;
use super::outcome::Outcome;
use super::report::{ComparisonReport, Mismatch};
use super::universe::{LeaseRef, Universe};
use crate::fixture::Fixture;
use crate::model::{Illegal, Model};

/// The maximum number of maintenance calls until nothing is due.
const MAINTAIN_CALLS_MAX: u32 = 10_000;

/// The state of one case.
pub(super) struct Case {
    pub(super) fixture: Fixture,
    pub(super) model: Model,
    pub(super) universe: Universe,
    pub(super) report: ComparisonReport,
}

impl Case {
    /// Advances the time of the store and of the model.
    pub(super) async fn advance(&mut self, by: Duration) {
        self.fixture.time.advance(by).await;
        self.model.advance_to(self.fixture.time.now().await);
    }

    /// Runs an operation on the store and on the model.
    pub(super) async fn perform(&mut self, operation: &Operation) -> Result<(), Difference> {
        let store = self.fixture.store.clone();
        match operation {
            Operation::Observe(items) => {
                let actual = store.observe(items).await?;
                self.check_each(items, &actual, Model::observe)
            }
            Operation::Accept(items) => {
                let actual = store.accept(items).await?;
                self.check_each(items, &actual, Model::accept)
            }
            Operation::Begin(items) => {
                let actual = store.begin(items).await?;
                self.check_each(items, &actual, Model::begin)?;
                for (begin, begun) in items.iter().zip(&actual) {
                    if let Begun::Acquired { uid, lease } = begun {
                        self.universe.remember_lease(LeaseRef {
                            uid: *uid,
                            owner: begin.owner,
                            fence: lease.fence,
                        });
                    }
                }
                Ok(())
            }
            Operation::Work(settlements, claims) => self.work(settlements, claims).await,
            Operation::Extend(items) => {
                let actual = store.extend(items).await?;
                self.check_each(items, &actual, |model, item, _| Ok(model.extend(item)))
            }
            Operation::Operate(items) => {
                let actual: Vec<Operated> = store.operate(items).await?;
                self.check_each(items, &actual, Model::operate)
            }
            Operation::Records(items) => {
                let actual = store.records(items).await?;
                self.check_each(items, &actual, |model, item, _| Ok(model.record(item)))
            }
            Operation::Maintain(budget) => self.maintain(budget).await,
            Operation::Counts(scopes) => self.counts(scopes).await,
            Operation::Read => self.read().await,
            Operation::Close => Ok(store.close().await?),
        }
    }

    async fn work(&mut self, settlements: &[Settlement], claims: &[Claim]) -> Result<(), Difference> {
        let actual = self.fixture.store.work(settlements, claims).await?;
        self.check_each(settlements, &actual.settled, |model, item, _| Ok(model.settle(item)))?;
        for (settlement, settled) in settlements.iter().zip(&actual.settled) {
            if *settled != Settled::LeaseLost {
                if self.universe.settled.contains(settlement) {
                    self.report.outcome("settled again");
                }
                self.universe.remember_settled(settlement);
            }
        }
        same("lists of deliveries", &claims.len(), &actual.deliveries.len())?;
        for (claim, deliveries) in claims.iter().zip(&actual.deliveries) {
            self.check_claim(claim, deliveries)?;
        }
        Ok(())
    }

    fn check_claim(&mut self, claim: &Claim, actual: &[Delivery]) -> Result<(), Difference> {
        let context = format!("{claim:?}");
        let again =
            actual.iter().any(|delivery| self.universe.leases.iter().any(|lease| lease.is_of(delivery)));
        let expected = self.model.claim(claim, actual);
        let expected = expected.map_err(|illegal| Difference::illegal(&context, &illegal, &actual))?;
        same(&context, &expected.as_slice(), &actual)?;
        self.report.outcome(match actual {
            [] => "claimed nothing",
            _ if again => "claimed again",
            [_] => "claimed one",
            _ => "claimed a batch",
        });
        for delivery in actual {
            let Delivery { uid, lease, .. } = delivery;
            self.universe.remember_lease(LeaseRef { uid: *uid, owner: lease.owner, fence: lease.fence });
        }
        Ok(())
    }

    /// Runs maintenance until nothing is due.
    async fn maintain(&mut self, budget: &Budget) -> Result<(), Difference> {
        let mut forgotten_by_store = 0;
        let mut next_due = None;
        for _ in 0..MAINTAIN_CALLS_MAX {
            let report = self.fixture.store.maintain(budget.clone()).await?;
            forgotten_by_store += report.forgotten;
            next_due = report.next_due;
            if next_due.is_none_or(|due| due > self.model.now()) {
                break;
            }
        }
        let forgotten = self.model.maintain(budget);
        for _ in 0..forgotten {
            self.report.outcome("forgotten");
        }
        if forgotten_by_store != forgotten {
            return Err(Difference::new(
                "forgotten by maintenance",
                forgotten.to_string(),
                &forgotten_by_store,
            ));
        }
        let wanted = self.model.next_maintenance(budget);
        let late = wanted.is_some_and(|wanted| next_due.is_none_or(|due| due > wanted));
        let never_done = next_due.is_some_and(|due| due <= self.model.now());
        if late || never_done {
            let expected = format!("after {:?}, not after {wanted:?}", self.model.now());
            return Err(Difference::new("next_due of maintenance", expected, &next_due));
        }
        Ok(())
    }

    /// Counts, ready topics and topic counts may lag until maintenance has run.
    async fn counts(&mut self, scopes: &[Scope]) -> Result<(), Difference> {
        self.maintain(&Budget::new(1_000)).await?;
        for scope in scopes {
            let actual = self.fixture.store.counts(scope).await?;
            if !actual.estimated {
                same(&format!("{scope:?}"), &self.model.counts(scope), &actual)?;
            }
        }
        self.check_ready_topics().await?;
        self.check_topic_counts().await
    }

    /// Compares the outcome of each item with what the model predicts.
    fn check_each<I: Debug, O: Outcome + PartialEq + Debug>(
        &mut self,
        items: &[I],
        actual: &[O],
        predict: impl Fn(&mut Model, &I, &O) -> Result<O, Illegal>,
    ) -> Result<(), Difference> {
        same("outcomes", &items.len(), &actual.len())?;
        for (item, actual) in items.iter().zip(actual) {
            let context = format!("{item:?}");
            let expected = predict(&mut self.model, item, actual);
            let expected = expected.map_err(|illegal| Difference::illegal(&context, &illegal, actual))?;
            same(&context, &expected, actual)?;
            self.report.outcome(actual.kind());
        }
        Ok(())
    }
}

/// A difference between the store and the model.
#[derive(Debug)]
pub(super) struct Difference {
    context: String,
    expected: String,
    actual: String,
}

impl Difference {
    fn new(context: &str, expected: String, actual: &impl Debug) -> Self {
        Self { context: context.to_owned(), expected, actual: format!("{actual:#?}") }
    }

    /// An illegal choice of the store.
    pub(super) fn illegal(context: &str, illegal: &Illegal, actual: &impl Debug) -> Self {
        Self::new(context, illegal.to_string(), actual)
    }

    /// Adds the case and the call.
    pub(super) fn at(self, seed: u64, step: u32, operation: &Operation) -> Mismatch {
        let Self { context, expected, actual } = self;
        Mismatch { seed, step, operation: format!("{operation:?}"), context, expected, actual }
    }
}

impl From<Error> for Difference {
    fn from(error: Error) -> Self {
        Self::new("the call", "a result".to_owned(), &error)
    }
}

/// Checks that both are equal.
pub(super) fn same<T: PartialEq + Debug>(context: &str, expected: &T, actual: &T) -> Result<(), Difference> {
    if expected == actual {
        return Ok(());
    }
    Err(Difference::new(context, format!("{expected:#?}"), actual))
}
