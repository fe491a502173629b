//! Maintenance: runs due timers, and forgets what need not be kept, in bounded steps.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::machine::{CallContext, Machine};
use oncebox_core::{Budget, DeadLetters, Error, MaintenanceReport, Retention};

use crate::STEP_ITEMS_MAX;
use crate::body::Body;
use crate::call::Call;
use crate::decision::{Loaded, Rewrite, decide};
use crate::rows::{StepFailure, Wanted};
use crate::search::{Search, Sought};
use crate::step;
use crate::targets::Targets;

impl<R: Search> Call<'_, R> {
    /// Runs due timers and forgets messages, within the budget; see [`oncebox_core::Store::maintain`]. The report has
    /// the numbers of forgotten messages: the store adds what its calls have reported ([`crate::PendingReport`]), and
    /// when the next run is due.
    pub async fn maintain(&mut self, budget: &Budget) -> Result<MaintenanceReport, Error> {
        let mut report = MaintenanceReport::default();
        if !self.run_all_timers(budget.items_max).await? {
            return Ok(report);
        }
        let (mut left, mut attempt) = (budget.items_max as usize, 1);
        while left > 0 {
            let items_max = left.min(STEP_ITEMS_MAX);
            match self.forget_once(budget, items_max).await {
                Ok((found, step)) => {
                    report.forgotten += step.forgotten;
                    report.dead_letters_forgotten += step.dead_letters_forgotten;
                    if found < items_max || step.forgotten == 0 {
                        break;
                    }
                    left = left.saturating_sub(usize::try_from(step.forgotten).unwrap_or(usize::MAX));
                    attempt = 1;
                }
                Err(StepFailure::Conflict) if attempt < R::ATTEMPTS_MAX => attempt += 1,
                // The messages are left to the other process.
                Err(StepFailure::Conflict | StepFailure::LockTimeout) => break,
                Err(failure) => return Err(failure.into()),
            }
        }
        Ok(report)
    }

    /// Forgets some messages, in one transaction. Returns how many were found.
    async fn forget_once(
        &mut self,
        budget: &Budget,
        items_max: usize,
    ) -> Result<(usize, MaintenanceReport), StepFailure> {
        self.rows.begin(self.lock_wait()).await?;
        let uids = self.rows.find(Sought::Removable { budget, items_max }).await?;
        let found = uids.len();
        let targets = Targets { uids, ..Targets::default() };
        let messages = self.rows.load(Wanted::Named(&targets)).await?;
        let ticket = self.rows.ticket().await?;
        let loaded = Loaded { messages, ticket, elsewhere: Vec::new() };
        let decision = decide(&loaded, Rewrite::Changed, &mut *self.ids, forget)?;
        let (step, mut events) = step::finish(&mut self.rows, &loaded, decision).await?;
        // What time has brought meanwhile is reported like everything else.
        let (lapsed, expired, died) = (step.lapsed, step.expired, step.died.clone());
        events.report = MaintenanceReport { lapsed, expired, died, ..events.report };
        self.events.push(events);
        Ok((found, step))
    }
}

/// Forgets the loaded messages, except those that must be kept: the search knows the retentions, and the state machine
/// knows what was promised to senders and what answers repeats.
fn forget(machine: &mut Machine<Body>, context: &mut CallContext<'_, Body>) -> MaintenanceReport {
    let at_once = Retention { keep: Some(Duration::ZERO), messages_max: None };
    let dead_letters = DeadLetters { default: at_once, ..DeadLetters::default() };
    machine.maintain(
        context,
        Budget {
            items_max: u32::MAX,
            seen_keep: Some(Duration::ZERO),
            dead_keep: Some(Duration::ZERO),
            dead_letters: Some(Arc::new(dead_letters)),
        },
    )
}
