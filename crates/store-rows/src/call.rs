//! A call on the rows of a store: bounded steps, retries after conflicts, and due timers.

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{Error, IdSource};

use crate::STEP_ITEMS_MAX;
use crate::body::Body;
use crate::decision::Events;
use crate::rows::{LockWait, LockedRows, Rows, StepFailure};
use crate::step;
use crate::targets::Targets;

/// Maximum number of messages whose timers run in one transaction.
#[expect(clippy::cast_possible_truncation, reason = "a thousand")]
pub(crate) const TIMER_STEP_MAX: u32 = STEP_ITEMS_MAX as u32;

/// A call of a store, on one connection.
pub struct Call<'a, R> {
    pub(crate) rows: R,
    pub(crate) ids: &'a mut dyn IdSource,
    lock_wait: LockWait,
    pub(crate) events: Vec<Events>,
}

impl<'a, R: Rows> Call<'a, R> {
    /// A call that waits for locks as `lock_wait` says. `ids` generates the uids of new messages.
    pub fn new(rows: R, ids: &'a mut dyn IdSource, lock_wait: LockWait) -> Self {
        Self { rows, ids, lock_wait, events: Vec::new() }
    }

    /// What the committed steps of the call have caused so far, also if the call failed afterwards.
    pub fn into_events(self) -> Vec<Events> {
        self.events
    }

    pub(crate) fn lock_wait(&self) -> LockWait {
        self.lock_wait
    }

    /// Notes that a part of the call has taken effect: from now on it must run to completion, so it waits for locks.
    pub(crate) fn committed(&mut self, events: Events) {
        self.lock_wait = LockWait::Block;
        self.events.push(events);
    }

    /// Loads the targets, decides, and stores the changes, in one transaction. Tries again after conflicts, so `decide`
    /// may run several times; only its last run takes effect.
    pub async fn decide<T>(
        &mut self,
        targets: &Targets<'_>,
        mut decide: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>) -> T,
    ) -> Result<T, Error> {
        let mut attempt = 1;
        loop {
            let once =
                step::decide_once(&mut self.rows, self.lock_wait, &mut *self.ids, targets, &mut decide);
            match once.await {
                Ok((answer, events)) => {
                    self.committed(events);
                    return Ok(answer);
                }
                Err(StepFailure::Conflict) if attempt < R::ATTEMPTS_MAX => attempt += 1,
                Err(failure) => return Err(failure.into()),
            }
        }
    }

    /// Decides each item of a call, in order and in bounded steps. `target` names the messages of an item.
    pub async fn decide_each<'i, I, T>(
        &mut self,
        items: &'i [I],
        target: impl Fn(&mut Targets<'i>, &'i I),
        mut each: impl FnMut(&mut Machine<Body>, &mut CallContext<'_, Body>, &I) -> T,
    ) -> Result<Vec<T>, Error> {
        let mut outcomes = Vec::with_capacity(items.len());
        for step in items.chunks(STEP_ITEMS_MAX) {
            let mut targets = Targets::default();
            for item in step {
                target(&mut targets, item);
            }
            if targets.has_lane_limits() {
                // Expired messages do not count towards a lane's limit.
                self.run_all_timers(TIMER_STEP_MAX).await?;
            }
            let decide = |machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>| {
                step.iter().map(|item| each(machine, context, item)).collect::<Vec<_>>()
            };
            outcomes.extend(self.decide(&targets, decide).await?);
        }
        Ok(outcomes)
    }

    /// Runs the due timers of at most `items_max` messages in one transaction; returns how many there were. If another
    /// process interferes, leaves them to it.
    pub async fn run_timers(&mut self, items_max: u32, locked: LockedRows) -> Result<usize, Error> {
        match self.run_timers_once(items_max, locked).await {
            Err(StepFailure::Conflict | StepFailure::LockTimeout) => Ok(0),
            ran => Ok(ran?),
        }
    }

    /// Runs due timers in bounded steps, for at most `items_max` messages, and tries again after conflicts. Returns
    /// whether those were all, apart from messages that other transactions have locked.
    pub async fn run_all_timers(&mut self, items_max: u32) -> Result<bool, Error> {
        let (mut left, mut attempt) = (items_max, 1);
        while left > 0 {
            let step = left.min(TIMER_STEP_MAX);
            match self.run_timers_once(step, LockedRows::Skip).await {
                Ok(count) if count < step as usize => return Ok(true),
                Ok(_) => (left, attempt) = (left - step, 1),
                Err(StepFailure::Conflict) if attempt < R::ATTEMPTS_MAX => attempt += 1,
                Err(StepFailure::Conflict | StepFailure::LockTimeout) => return Ok(true),
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(false)
    }

    async fn run_timers_once(&mut self, items_max: u32, locked: LockedRows) -> Result<usize, StepFailure> {
        let items_max = items_max.min(TIMER_STEP_MAX);
        let (rows, ids) = (&mut self.rows, &mut *self.ids);
        let (count, events) = step::run_timers_once(rows, self.lock_wait, ids, items_max, locked).await?;
        self.events.push(events);
        Ok(count)
    }
}
