//! The background loops of this process: whether they make progress, and whether their store calls succeed.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::Error;
use tokio::time::Instant;

/// A loop that makes no progress for this long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// Why a loop does not work.
pub(crate) struct LoopProblem {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// The monitors of the loops that run on one inbox.
#[derive(Clone, Default)]
pub(crate) struct LoopMonitors(Arc<Mutex<Loops>>);

#[derive(Default)]
struct Loops {
    running: Vec<Weak<LoopMonitor>>,
    /// Loops that ended with a failure, and its description; until a loop of that name starts again, or the same one
    /// continues.
    terminated: BTreeMap<&'static str, String>,
}

impl LoopMonitors {
    /// Registers a loop. Health checks include it until the monitor is dropped.
    pub(crate) fn start(&self, name: &'static str) -> Arc<LoopMonitor> {
        let state =
            LoopState { last_tick: Instant::now(), idle: false, failing: BTreeMap::new(), terminated: false };
        let monitor = Arc::new(LoopMonitor { name, state: Mutex::new(state), monitors: self.clone() });
        let mut loops = self.lock();
        loops.terminated.remove(name);
        loops.running.retain(|monitor| monitor.strong_count() > 0);
        loops.running.push(Arc::downgrade(&monitor));
        monitor
    }

    fn lock(&self) -> MutexGuard<'_, Loops> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The problems of all loops; empty if all of them work.
    pub(crate) fn problems(&self, now: Instant) -> Vec<LoopProblem> {
        let loops = self.lock();
        let running: Vec<_> = loops.running.iter().filter_map(Weak::upgrade).collect();
        let terminated = loops.terminated.iter().map(|(name, text)| LoopProblem { name, text: text.clone() });
        let mut problems: Vec<_> = terminated.collect();
        // Dropping the last handle of a monitor takes the lock.
        drop(loops);
        problems.extend(running.iter().filter_map(|monitor| monitor.problem(now)));
        problems
    }
}

/// Whether a loop makes progress, and whether its store calls succeed.
pub(crate) struct LoopMonitor {
    name: &'static str,
    state: Mutex<LoopState>,
    monitors: LoopMonitors,
}

struct LoopState {
    last_tick: Instant,
    /// The loop has nothing to do and is not expected to make progress.
    idle: bool,
    /// By call: the number of failures since the last success, and the last error.
    failing: BTreeMap<&'static str, (u32, String)>,
    /// The loop has ended because of an error.
    terminated: bool,
}

impl LoopMonitor {
    fn lock(&self) -> MutexGuard<'_, LoopState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the loop makes progress.
    pub(crate) fn tick(&self) {
        let mut state = self.lock();
        state.last_tick = Instant::now();
        state.idle = false;
    }

    /// Records that the loop has nothing to do until the next [`Self::tick`]; it does not count as stalled meanwhile.
    pub(crate) fn idle(&self) {
        self.lock().idle = true;
    }

    /// Records that a call succeeded. A loop that has ended with an error continues with its next pass.
    pub(crate) fn succeeded(&self, call: &'static str) {
        let mut state = self.lock();
        state.failing.remove(call);
        let continues = mem::take(&mut state.terminated);
        drop(state);
        if continues {
            self.monitors.lock().terminated.remove(self.name);
        }
    }

    /// Records that a call failed. Returns whether it is the first failure of this call since its last success.
    pub(crate) fn failed(&self, call: &'static str, error: &Error) -> bool {
        let mut state = self.lock();
        let (failures, text) = state.failing.entry(call).or_default();
        *failures = failures.saturating_add(1);
        *text = error.to_string();
        *failures == 1
    }

    /// Records that the loop ends because of an error.
    pub(crate) fn terminated(&self, error: &Error) {
        self.lock().terminated = true;
        self.monitors.lock().terminated.insert(self.name, format!("has ended: {error}"));
    }

    fn problem(&self, now: Instant) -> Option<LoopProblem> {
        let state = self.lock();
        let stalled_for = now.saturating_duration_since(state.last_tick);
        let text = if let Some((call, (failures, error))) = state.failing.first_key_value() {
            format!("{failures} consecutive {call} calls failed, the last with: {error}")
        } else if stalled_for > STALLED_AFTER && !state.idle {
            format!("has made no progress for {} s: its thread is blocked", stalled_for.as_secs())
        } else {
            return None;
        };
        Some(LoopProblem { name: self.name, text })
    }
}

impl Drop for LoopMonitor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.monitors.lock().terminated.insert(self.name, "has panicked: see the log".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Error, ErrorKind};
    use tokio::time::Instant;

    use super::LoopMonitors;

    /// The monitor of a processor outlives its passes.
    #[test]
    fn a_loop_that_has_ended_is_healthy_when_its_calls_succeed_again() {
        let monitors = LoopMonitors::default();
        let [ended, other] = ["commands", "worker"].map(|name| monitors.start(name));
        let problems = || monitors.problems(Instant::now()).len();
        ended.terminated(&Error::new(ErrorKind::Corrupt, "a page is torn"));
        assert_eq!(problems(), 1);
        other.succeeded("work");
        assert_eq!(problems(), 1, "another loop");
        ended.succeeded("work");
        assert_eq!(problems(), 0);
    }
}
