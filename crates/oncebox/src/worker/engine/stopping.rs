//! Pausing, draining, stopping.

use std::time::Duration;

use oncebox_core::Verdict;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Command, Engine};
use crate::worker::in_flight::Phase;

/// How long cancelled handlers and the release of their messages may take after the stop budget is used up.
const GRACE: Duration = Duration::from_secs(5);

/// A single pass fails after this many failed calls in a row.
const PASS_FAILURES_MAX: u32 = 3;

/// What the loop works towards.
pub(in crate::worker) enum Mode {
    Working,
    /// Works until there is nothing left to claim: every topic has been checked since the last message and had nothing.
    UntilIdle {
        worked: bool,
        checked: bool,
    },
    /// Claims `left` more messages, or until every topic has been checked, and handles them.
    Pass {
        left: usize,
        checked_all: bool,
    },
    Paused,
    Stopping {
        cancel_at: Instant,
        cancelled: bool,
    },
}

impl Mode {
    pub(in crate::worker) const UNTIL_IDLE: Self = Self::UntilIdle { worked: false, checked: false };

    /// A single pass over one batch.
    pub(in crate::worker) fn pass(batch: u32) -> Self {
        Self::Pass { left: batch as usize, checked_all: false }
    }

    pub(in crate::worker) fn is_until_idle(&self) -> bool {
        matches!(self, Self::UntilIdle { .. })
    }

    pub(in crate::worker) fn is_pass(&self) -> bool {
        matches!(self, Self::Pass { .. })
    }

    /// Whether the worker claims messages.
    pub(super) fn claims(&self) -> bool {
        match self {
            Self::Working | Self::UntilIdle { .. } => true,
            Self::Pass { left, checked_all } => *left > 0 && !checked_all,
            Self::Paused | Self::Stopping { .. } => false,
        }
    }

    /// Whether the worker starts queued deliveries.
    pub(super) fn starts(&self) -> bool {
        matches!(self, Self::Working | Self::UntilIdle { .. } | Self::Pass { .. })
    }

    /// Whether the worker ends after this many failed calls in a row, although a retry might succeed.
    pub(super) fn gives_up(&self, failures: u32) -> bool {
        self.is_pass() && failures >= PASS_FAILURES_MAX
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }

    /// Records a claim that returned `count` messages. `in_flight` deliveries are in flight after it; `complete` says
    /// whether every topic has been checked.
    pub(super) fn claimed(&mut self, count: usize, in_flight: usize, complete: bool) {
        match self {
            Self::UntilIdle { worked, checked } => {
                *worked |= count > 0;
                *checked = complete && in_flight == 0;
            }
            Self::Pass { left, checked_all } => {
                *left = left.saturating_sub(count);
                *checked_all = complete;
            }
            Self::Working | Self::Paused | Self::Stopping { .. } => {}
        }
    }

    /// The time limit of a call: while stopping, there must be time for a second attempt.
    pub(super) fn call_limit(&self) -> Duration {
        if self.is_stopping() { GRACE / 2 } else { Duration::MAX }
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Self::Stopping { cancel_at, cancelled: false } => Some(*cancel_at),
            Self::Stopping { cancel_at, cancelled: true } => Some(*cancel_at + GRACE),
            _ => None,
        }
    }
}

impl Engine {
    /// Starts over: there may be more to claim.
    pub(in crate::worker) fn reopen_until_idle(&mut self) {
        self.mode = Mode::UNTIL_IDLE;
        self.polling.wake();
    }

    pub(super) fn handle_command(&mut self, command: Command) {
        match command {
            Command::Pause(paused) => {
                self.pause();
                self.pause_waiters.push(paused);
            }
            Command::Resume => {
                // Callers that wait for the drain get an error, as their senders are dropped.
                self.drain_waiters.clear();
                self.mode = Mode::Working;
                self.polling.wake();
                info!(store = %self.shared.name, "worker resumed");
            }
            Command::Drain(drained) => {
                self.pause();
                self.drain_waiters.push(drained);
            }
            Command::Stop => {
                let cancel_at = Instant::now() + self.options.stop_budget;
                self.mode = Mode::Stopping { cancel_at, cancelled: false };
                self.release_queued();
                self.forget_pauses();
                self.reset_backoff();
                info!(store = %self.shared.name, running = self.tasks.len(), "worker stopping");
            }
        }
    }

    fn pause(&mut self) {
        self.mode = Mode::Paused;
        self.release_queued();
        self.forget_pauses();
        info!(store = %self.shared.name, running = self.tasks.len(), "worker paused");
    }

    /// Cancels reading the paused topics, and forgets its failures: without claims, they are not needed.
    fn forget_pauses(&mut self) {
        if self.unanswered.is_none() {
            self.pauses = None;
            self.monitor.succeeded("records");
        }
    }

    /// Retries without a delay: the store may be available again.
    fn reset_backoff(&mut self) {
        self.retry_at = None;
        self.failures = 0;
    }

    /// Releases deliveries that no handler has started, so that other workers can claim them.
    fn release_queued(&mut self) {
        for key in std::mem::take(&mut self.in_flight.queue) {
            if let Some(route) = self.in_flight.item(&key).and_then(|item| item.route) {
                self.routes.all[route].queued -= 1;
            }
            self.in_flight.settle(key, Verdict::Release);
        }
    }

    /// Whether there is nothing more to do. When the stop budget is used up, cancels handlers; after the grace period,
    /// gives up.
    pub(super) fn has_ended(&mut self, now: Instant) -> bool {
        let empty = self.in_flight.is_empty() && self.work.is_none() && self.unanswered.is_none();
        if empty {
            for drained in self.drain_waiters.drain(..) {
                // The caller may have stopped waiting.
                let _ = drained.send(());
            }
        }
        match self.mode {
            Mode::Working | Mode::Paused => false,
            Mode::UntilIdle { worked: true, .. } if empty => {
                // The handled messages may have made others ready.
                self.reopen_until_idle();
                false
            }
            Mode::UntilIdle { checked, .. } => empty && checked,
            Mode::Pass { .. } => empty && !self.mode.claims(),
            Mode::Stopping { .. } if empty => true,
            Mode::Stopping { cancel_at, cancelled } => {
                if now >= cancel_at && !cancelled {
                    self.cancel_running();
                    self.reset_backoff();
                    self.mode = Mode::Stopping { cancel_at, cancelled: true };
                }
                let given_up = now >= cancel_at + GRACE;
                if given_up {
                    self.summary.unsettled = self.in_flight.len() as u64;
                    warn!(store = %self.shared.name, unsettled = self.in_flight.len(), "worker stopped with unsettled deliveries");
                }
                given_up
            }
        }
    }

    /// Confirms pauses once no further delivery can arrive: a claim in flight may still return some, and so may one whose
    /// response was lost, when it is repeated.
    pub(super) fn confirm_pauses(&mut self) {
        let in_flight = self.work.as_ref().is_some_and(|call| !call.request.claims.is_empty());
        if !in_flight && self.unanswered.is_none() {
            for paused in self.pause_waiters.drain(..) {
                let _ = paused.send(());
            }
        }
    }

    fn cancel_running(&self) {
        for (_, item) in self.in_flight.items() {
            if let Phase::Running { cancellation, .. } = &item.phase {
                cancellation.cancel();
            }
        }
    }
}
