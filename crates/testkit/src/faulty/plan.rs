//! The plan: which calls fail, and how.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It is made and answered as if nothing were planned; stands in a plan to reach a later call.
    Pass,
    /// It is not made, and fails as `Unavailable`.
    FailBefore,
    /// It is made, and its answer is lost: it fails as `Unavailable`. Its own failure is passed on.
    FailAfterCommit,
    /// It is made only after so long; a caller that gives up before has called nothing.
    Delay(Duration),
    /// It is made and never answers; a caller that gives up has called. Its own failure is passed on.
    Hang,
}

/// The calls of the port that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// `observe`.
    Observe,
    /// `accept`.
    Accept,
    /// `begin`.
    Begin,
    /// `work`.
    Work,
    /// `extend`.
    Extend,
    /// `operate`.
    Operate,
    /// `get`.
    Get,
    /// `with_key`.
    WithKey,
    /// `page`.
    Page,
    /// `counts`.
    Counts,
    /// `ready_topics`.
    ReadyTopics,
    /// `topic_counts`.
    TopicCounts,
    /// `usage`.
    Usage,
    /// `upkeep`.
    Upkeep,
    /// `close`.
    Close,
}

/// What is planned for one call: of one operation, or of any.
#[derive(Debug, Clone, Copy)]
struct Planned {
    operation: Option<Operation>,
    fault: Fault,
}

/// Faults to come, in order; every call takes the first that is meant for it. Clones share one plan.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan(Arc<Mutex<VecDeque<Planned>>>);

impl FaultPlan {
    /// Most faults that can be planned at once.
    pub const FAULTS_MAX: usize = 10_000;

    /// Plans a fault for the next call that has none yet, whatever its operation.
    pub fn next(&self, fault: Fault) {
        self.push(Planned { operation: None, fault });
    }

    /// Plans a fault for the next call of this operation that has none yet.
    pub fn next_of(&self, operation: Operation, fault: Fault) {
        self.push(Planned { operation: Some(operation), fault });
    }

    /// How many planned faults no call has taken yet.
    pub fn left(&self) -> usize {
        self.queue().len()
    }

    fn push(&self, planned: Planned) {
        let mut queue = self.queue();
        assert!(queue.len() < Self::FAULTS_MAX, "a plan has {} faults at most", Self::FAULTS_MAX);
        queue.push_back(planned);
    }

    pub(super) fn take(&self, operation: Operation) -> Fault {
        let mut queue = self.queue();
        let place = queue.iter().position(|planned| planned.operation.is_none_or(|of| of == operation));
        place.and_then(|place| queue.remove(place)).map_or(Fault::Pass, |planned| planned.fault)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Fault, FaultPlan, Operation};

    #[test]
    fn a_call_takes_the_first_fault_that_is_meant_for_it() {
        let plan = FaultPlan::default();
        plan.next_of(Operation::Work, Fault::Hang);
        plan.clone().next(Fault::FailBefore);
        plan.next(Fault::Pass);
        plan.next_of(Operation::Accept, Fault::FailAfterCommit);
        let taken = [Operation::Accept, Operation::Get, Operation::Accept, Operation::Work, Operation::Work];
        let faults = taken.map(|operation| plan.take(operation));
        assert_eq!(
            faults,
            [Fault::FailBefore, Fault::Pass, Fault::FailAfterCommit, Fault::Hang, Fault::Pass]
        );
        assert_eq!(plan.left(), 0);
    }

    #[test]
    #[should_panic(expected = "10000 faults at most")]
    fn a_plan_is_bounded() {
        let plan = FaultPlan::default();
        for _ in 0..=FaultPlan::FAULTS_MAX {
            plan.next(Fault::Pass);
        }
    }
}
