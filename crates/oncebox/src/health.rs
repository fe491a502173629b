//! Health: do the loops of this process turn, does the store answer them, and how full is it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::Error;
use tokio::time::Instant;

use crate::shared::Shared;

/// From this share of a bound on, health warns (SPEC rule 20).
const FULL_SHARE: f64 = 0.8;
/// A loop that has not turned for so long has stalled.
const STALLED_AFTER: Duration = Duration::from_secs(30);
/// The store has so long to tell how full it is.
const USAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// All is well.
    Healthy,
    /// Works, but somebody should look.
    Warning,
    /// Does not work.
    Unhealthy,
}

/// One thing that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is about: a loop or a bound.
    pub subject: String,
    /// What was found, and what to do.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.text)
    }
}

/// How an inbox stands in this process.
///
/// A loop is healthy before its first pass, unhealthy while its calls fail one after another, healthy again after the
/// first that succeeds, and unhealthy when it has stalled. How handlers fare does not matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// The store's name.
    pub store: String,
    /// Everything worth telling; none if all is well.
    pub findings: Vec<Finding>,
}

impl Health {
    pub(crate) async fn of(shared: &Shared) -> Self {
        let mut findings: Vec<_> =
            shared.pulses.all().iter().filter_map(|pulse| pulse.finding(Instant::now())).collect();
        let finding = |level, subject: &str, text| Finding { level, subject: subject.to_owned(), text };
        match tokio::time::timeout(USAGE_TIMEOUT, shared.store.usage()).await {
            Ok(Ok(usage)) => {
                let full = usage.bounds.iter().filter(|bound| bound.share() >= FULL_SHARE);
                findings.extend(full.map(|bound| {
                    let text =
                        format!("{} of {} used: raise the bound or let things go", bound.used, bound.limit);
                    finding(Level::Warning, bound.name, text)
                }));
            }
            Ok(Err(error)) => findings.push(finding(Level::Unhealthy, "store", error.to_string())),
            Err(_) => findings.push(finding(Level::Unhealthy, "store", "does not answer".to_owned())),
        }
        Self { store: shared.name.to_string(), findings }
    }

    /// The worst of its findings.
    pub fn level(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Healthy)
    }

    /// Whether everything works; warnings do not matter.
    pub fn is_healthy(&self) -> bool {
        self.level() < Level::Unhealthy
    }
}

/// The loops that run on one inbox.
#[derive(Default)]
pub(crate) struct Pulses(Mutex<Vec<Weak<Pulse>>>);

impl Pulses {
    /// A pulse that health looks at until it is dropped.
    pub(crate) fn start(&self, name: &'static str) -> Arc<Pulse> {
        let beat = Beat { turned: Instant::now(), failures: 0, error: String::new() };
        let pulse = Arc::new(Pulse { name, beat: Mutex::new(beat) });
        let mut pulses = self.lock();
        pulses.retain(|pulse| pulse.strong_count() > 0);
        pulses.push(Arc::downgrade(&pulse));
        pulse
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Pulse>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Pulse>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

/// Whether one loop turns, and whether its calls succeed.
pub(crate) struct Pulse {
    name: &'static str,
    beat: Mutex<Beat>,
}

struct Beat {
    turned: Instant,
    /// Calls that failed since the last that succeeded.
    failures: u32,
    error: String,
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop turned.
    pub(crate) fn turned(&self) {
        self.lock().turned = Instant::now();
    }

    /// A call succeeded.
    pub(crate) fn passed(&self) {
        self.lock().failures = 0;
    }

    /// A call failed.
    pub(crate) fn failed(&self, error: &Error) {
        let mut beat = self.lock();
        beat.failures = beat.failures.saturating_add(1);
        beat.error = error.to_string();
    }

    fn finding(&self, now: Instant) -> Option<Finding> {
        let beat = self.lock();
        let still = now.saturating_duration_since(beat.turned);
        let text = if beat.failures > 0 {
            format!("{} calls failed in a row, the last with: {}", beat.failures, beat.error)
        } else if still > STALLED_AFTER {
            format!("has not turned for {} s: something blocks its thread", still.as_secs())
        } else {
            return None;
        };
        Some(Finding { level: Level::Unhealthy, subject: self.name.to_owned(), text })
    }
}
