//! Pausing, draining, stopping.

use std::time::Duration;

use oncebox_core::Verdict;
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Command, Engine};
use crate::worker::held::Phase;

/// After the budget cancelled handlers end, and the store is told that their messages are free, within this time.
const GRACE: Duration = Duration::from_secs(5);

/// A single pass whose calls failed so often in a row has failed.
const PASS_FAILURES_MAX: u32 = 3;

/// What the loop is after.
pub(in crate::worker) enum Mode {
    Working,
    /// Works until nothing is to be had: since the last message every topic was asked and had nothing.
    UntilIdle {
        worked: bool,
        checked: bool,
    },
    /// Claims so many more, or until every topic was asked, and works that off.
    Pass {
        left: usize,
        asked: bool,
    },
    Paused,
    Stopping {
        cancel_at: Instant,
        cancelled: bool,
    },
}

impl Mode {
    pub(in crate::worker) const UNTIL_IDLE: Self = Self::UntilIdle { worked: false, checked: false };

    /// One pass over a batch.
    pub(in crate::worker) fn pass(batch: u32) -> Self {
        Self::Pass { left: batch as usize, asked: false }
    }

    pub(in crate::worker) fn is_pass(&self) -> bool {
        matches!(self, Self::Pass { .. })
    }

    /// Whether more is asked for.
    pub(super) fn claims(&self) -> bool {
        match self {
            Self::Working | Self::UntilIdle { .. } => true,
            Self::Pass { left, asked } => *left > 0 && !asked,
            Self::Paused | Self::Stopping { .. } => false,
        }
    }

    /// Whether what waits is started.
    pub(super) fn starts(&self) -> bool {
        matches!(self, Self::Working | Self::UntilIdle { .. } | Self::Pass { .. })
    }

    /// Whether it ends after so many calls that failed in a row, though a repeat might succeed.
    pub(super) fn gives_up(&self, failures: u32) -> bool {
        self.is_pass() && failures >= PASS_FAILURES_MAX
    }

    pub(super) fn is_stopping(&self) -> bool {
        matches!(self, Self::Stopping { .. })
    }

    /// A claim brought `count` messages; after it so many are held, and every topic was asked, or not.
    pub(super) fn claimed(&mut self, count: usize, held: usize, complete: bool) {
        match self {
            Self::UntilIdle { worked, checked } => {
                *worked |= count > 0;
                *checked = complete && held == 0;
            }
            Self::Pass { left, asked } => {
                *left = left.saturating_sub(count);
                *asked = complete;
            }
            Self::Working | Self::Paused | Self::Stopping { .. } => {}
        }
    }

    /// How long a call may take: while stopping, there must be time for another.
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
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Pause(told) => {
                self.pause();
                self.pausing.push(told);
            }
            Command::Resume => {
                // Whoever waits for it to be drained waits in vain now, and hears that.
                self.draining.clear();
                self.mode = Mode::Working;
                self.appetite.woken();
                info!(store = %self.shared.name, "the worker goes on");
            }
            Command::Drain(done) => {
                self.pause();
                self.draining.push(done);
            }
            Command::Stop => {
                let cancel_at = Instant::now() + self.options.stop_budget;
                self.mode = Mode::Stopping { cancel_at, cancelled: false };
                self.release_queued();
                self.try_again();
                info!(store = %self.shared.name, running = self.tasks.len(), "the worker stops");
            }
        }
    }

    fn pause(&mut self) {
        self.mode = Mode::Paused;
        self.release_queued();
        info!(store = %self.shared.name, running = self.tasks.len(), "the worker pauses");
    }

    /// The store may be back: what is to be told is told now.
    fn try_again(&mut self) {
        self.retry_at = None;
        self.failures = 0;
    }

    /// What no handler has begun goes to other workers.
    fn release_queued(&mut self) {
        for ticket in std::mem::take(&mut self.held.queue) {
            if let Some(lane) = self.held.item(&ticket).and_then(|item| item.lane) {
                self.lanes.all[lane].queued -= 1;
            }
            self.held.settle(ticket, Verdict::Release);
        }
    }

    /// Whether there is nothing more to do. Cancels handlers, and gives up, when their time has come.
    pub(super) fn has_ended(&mut self, now: Instant) -> bool {
        let empty = self.held.is_empty() && self.work.is_none() && self.unanswered.is_none();
        if empty {
            for done in self.draining.drain(..) {
                // Whoever waited may have gone.
                let _ = done.send(());
            }
        }
        match self.mode {
            Mode::Working | Mode::Paused => false,
            Mode::UntilIdle { worked: true, .. } if empty => {
                // What was handled may have made something else ready.
                self.mode = Mode::UntilIdle { worked: false, checked: false };
                self.appetite.woken();
                false
            }
            Mode::UntilIdle { checked, .. } => empty && checked,
            Mode::Pass { .. } => empty && !self.mode.claims(),
            Mode::Stopping { .. } if empty => true,
            Mode::Stopping { cancel_at, cancelled } => {
                if now >= cancel_at && !cancelled {
                    self.cancel_running();
                    self.try_again();
                    self.mode = Mode::Stopping { cancel_at, cancelled: true };
                }
                let given_up = now >= cancel_at + GRACE;
                if given_up {
                    self.stopped.unsettled = self.held.len() as u64;
                    warn!(store = %self.shared.name, unsettled = self.held.len(), "stopped without having settled all");
                }
                given_up
            }
        }
    }

    /// Tells those who wait for a pause when nothing more can come: a claim under way may still bring something.
    pub(super) fn tell_paused(&mut self) {
        if self.work.as_ref().is_none_or(|call| call.about.claims.is_empty()) {
            for told in self.pausing.drain(..) {
                let _ = told.send(());
            }
        }
    }

    fn cancel_running(&self) {
        for (_, item) in self.held.items() {
            if let Phase::Running { cancellation, .. } = &item.phase {
                cancellation.cancel();
            }
        }
    }
}
