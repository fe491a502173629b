//! The fault plan: which calls fail, and how.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InjectedFault {
    /// The call is not affected; used in a plan to reach a later call.
    Pass,
    /// The call is not executed, and fails with `Unavailable`.
    FailBefore,
    /// The call is executed, and its outcome is lost: it fails with `Unavailable`. Its own error is returned.
    FailAfterCommit,
    /// The call is executed after this delay; if its caller cancels it before, it has no effect.
    Delay(Duration),
    /// The call is executed and never returns, so it takes effect even if it is cancelled. Its own error is returned.
    Hang,
}

/// The calls of a store that can fail.
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
    /// `records`.
    Records,
    /// `usage`.
    Usage,
    /// `maintain`.
    Maintain,
    /// `close`.
    Close,
}

/// The fault for one call of an operation, or of any operation.
#[derive(Debug, Clone, Copy)]
struct Planned {
    operation: Option<Operation>,
    fault: InjectedFault,
}

/// Future faults, in order; every call takes the first one that applies to it. Clones share one plan.
#[derive(Debug, Clone, Default)]
pub struct FaultPlan(Arc<Mutex<VecDeque<Planned>>>);

impl FaultPlan {
    /// The maximum number of planned faults.
    pub const FAULTS_MAX: usize = 10_000;

    /// Plans a fault for the next call that has none yet, whatever its operation.
    pub fn next(&self, fault: InjectedFault) {
        self.push(Planned { operation: None, fault });
    }

    /// Plans a fault for the next call of this operation that has none yet.
    pub fn next_of(&self, operation: Operation, fault: InjectedFault) {
        self.push(Planned { operation: Some(operation), fault });
    }

    /// The number of planned faults that no call has operations yet.
    pub fn left(&self) -> usize {
        self.queue().len()
    }

    fn push(&self, planned: Planned) {
        let mut queue = self.queue();
        assert!(queue.len() < Self::FAULTS_MAX, "a plan has {} faults at most", Self::FAULTS_MAX);
        queue.push_back(planned);
    }

    pub(super) fn take(&self, operation: Operation) -> InjectedFault {
        let mut queue = self.queue();
        let index = queue.iter().position(|planned| planned.operation.is_none_or(|of| of == operation));
        index.and_then(|index| queue.remove(index)).map_or(InjectedFault::Pass, |planned| planned.fault)
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{FaultPlan, InjectedFault, Operation};

    #[test]
    fn a_call_takes_the_first_fault_that_applies_to_it() {
        let plan = FaultPlan::default();
        plan.next_of(Operation::Work, InjectedFault::Hang);
        plan.clone().next(InjectedFault::FailBefore);
        plan.next(InjectedFault::Pass);
        plan.next_of(Operation::Accept, InjectedFault::FailAfterCommit);
        let operations =
            [Operation::Accept, Operation::Get, Operation::Accept, Operation::Work, Operation::Work];
        let faults = operations.map(|operation| plan.take(operation));
        assert_eq!(
            faults,
            [
                InjectedFault::FailBefore,
                InjectedFault::Pass,
                InjectedFault::FailAfterCommit,
                InjectedFault::Hang,
                InjectedFault::Pass
            ]
        );
        assert_eq!(plan.left(), 0);
    }

    #[test]
    #[should_panic(expected = "10000 faults at most")]
    fn a_plan_is_bounded() {
        let plan = FaultPlan::default();
        for _ in 0..=FaultPlan::FAULTS_MAX {
            plan.next(InjectedFault::Pass);
        }
    }
}
