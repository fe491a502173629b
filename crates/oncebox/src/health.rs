//! Health: whether the background loops of this process make progress, whether the store responds, and how full it is.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::Error;
use tokio::time::Instant;

use crate::shared::Shared;

pub use oncebox_core::{Bound, Usage};

/// Usage from which a bound is reported as nearly full (RULE-20).
const FULL_SHARE: f64 = 0.8;
/// A loop that makes no progress for this long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// Time limit for reading the store's usage.
const USAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HealthLevel {
    /// Everything works.
    Healthy,
    /// Everything works, but an operator should check.
    Warning,
    /// Something does not work.
    Unhealthy,
}

/// One problem found by a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HealthFinding {
    /// The severity.
    pub level: HealthLevel,
    /// What the finding is about: a loop (`worker`, `commands`, `maintenance`), `store`, or the name of a bound.
    pub subject: String,
    /// A description, and what to do about it.
    pub text: String,
}

impl fmt::Display for HealthFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

/// The health of an inbox, as seen by this process.
///
/// A loop is healthy before its first pass, unhealthy from its first failed store call until one succeeds, and
/// unhealthy when it has made no progress for 30 s. Failing handlers do not matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The store's name.
    pub store: String,
    /// All findings; empty if everything works.
    pub findings: Vec<HealthFinding>,
}

impl Health {
    pub(crate) async fn of(shared: &Shared) -> Self {
        let mut findings = shared.monitors.findings(Instant::now());
        match tokio::time::timeout(USAGE_TIMEOUT, shared.store.usage()).await {
            Ok(Ok(usage)) => {
                let full = usage.bounds.iter().filter(|bound| bound.share() >= FULL_SHARE);
                findings.extend(full.map(|bound| {
                    let text = format!("{} of {} used: {}", bound.used, bound.limit, bound.remedy());
                    HealthFinding { level: HealthLevel::Warning, subject: bound.name.to_owned(), text }
                }));
                // If something else keeps the journal from growing, the disk is not the problem.
                let has_problem = usage.problem.is_some();
                findings.retain(|finding| !has_problem || finding.subject != Bound::DISK_BYTES);
                findings.extend(usage.problem.map(|problem| {
                    let text = format!("new messages will be rejected once its space is used up: {problem}");
                    HealthFinding { level: HealthLevel::Warning, subject: "store".to_owned(), text }
                }));
            }
            Ok(Err(error)) => findings.push(unhealthy("store", error.to_string())),
            Err(_) => findings.push(unhealthy("store", "does not respond".to_owned())),
        }
        Self { store: shared.name.to_string(), findings }
    }

    /// The highest severity of all findings.
    pub fn level(&self) -> HealthLevel {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(HealthLevel::Healthy)
    }

    /// Whether everything works, apart from warnings.
    pub fn is_healthy(&self) -> bool {
        self.level() < HealthLevel::Unhealthy
    }
}

/// The monitors of the loops that run on one inbox.
#[derive(Clone, Default)]
pub(crate) struct LoopMonitors(Arc<Mutex<Loops>>);

#[derive(Default)]
struct Loops {
    running: Vec<Weak<LoopMonitor>>,
    /// Loops that ended with a failure, and its description; until a loop of that name starts again.
    terminated: BTreeMap<&'static str, String>,
}

impl LoopMonitors {
    /// Registers a loop. Health checks include it until the monitor is dropped.
    pub(crate) fn start(&self, name: &'static str) -> Arc<LoopMonitor> {
        let state = LoopState { last_tick: Instant::now(), idle: false, failing: BTreeMap::new() };
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

    fn findings(&self, now: Instant) -> Vec<HealthFinding> {
        let loops = self.lock();
        let running: Vec<_> = loops.running.iter().filter_map(Weak::upgrade).collect();
        let terminated = loops.terminated.iter().map(|(name, text)| unhealthy(name, text.clone()));
        let mut findings: Vec<_> = terminated.collect();
        // Dropping the last handle of a monitor takes the lock.
        drop(loops);
        findings.extend(running.iter().filter_map(|monitor| monitor.finding(now)));
        findings
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

    /// Records that a call succeeded.
    pub(crate) fn succeeded(&self, call: &'static str) {
        self.lock().failing.remove(call);
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
        self.monitors.lock().terminated.insert(self.name, format!("has ended: {error}"));
    }

    fn finding(&self, now: Instant) -> Option<HealthFinding> {
        let state = self.lock();
        let stalled_for = now.saturating_duration_since(state.last_tick);
        let text = if let Some((call, (failures, error))) = state.failing.first_key_value() {
            format!("{failures} consecutive {call} calls failed, the last with: {error}")
        } else if stalled_for > STALLED_AFTER && !state.idle {
            format!("has made no progress for {} s: its thread is blocked", stalled_for.as_secs())
        } else {
            return None;
        };
        Some(unhealthy(self.name, text))
    }
}

impl Drop for LoopMonitor {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.monitors.lock().terminated.insert(self.name, "has panicked: see the log".to_owned());
        }
    }
}

fn unhealthy(subject: &str, text: String) -> HealthFinding {
    HealthFinding { level: HealthLevel::Unhealthy, subject: subject.to_owned(), text }
}
