//! Health: do the loops of this process turn, does the store answer them, and how full is it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use oncebox_core::{Bound, Error};
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
#[non_exhaustive]
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
        let mut findings = shared.pulses.findings(Instant::now());
        match tokio::time::timeout(USAGE_TIMEOUT, shared.store.usage()).await {
            Ok(Ok(usage)) => {
                let full = usage.bounds.iter().filter(|bound| bound.share() >= FULL_SHARE);
                findings.extend(full.map(|bound| {
                    let text = format!("{} of {} used: {}", bound.used, bound.limit, bound.remedy());
                    Finding { level: Level::Warning, subject: bound.name.to_owned(), text }
                }));
                // What else keeps the journal from growing is no lack of space.
                let other = usage.trouble.is_some();
                findings.retain(|finding| !other || finding.subject != Bound::DISK_BYTES);
                findings.extend(usage.trouble.map(|trouble| {
                    let text = format!("new messages are refused once its space is used up: {trouble}");
                    Finding { level: Level::Warning, subject: "store".to_owned(), text }
                }));
            }
            Ok(Err(error)) => findings.push(unhealthy("store", error.to_string())),
            Err(_) => findings.push(unhealthy("store", "does not answer".to_owned())),
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
#[derive(Clone, Default)]
pub(crate) struct Pulses(Arc<Mutex<Loops>>);

#[derive(Default)]
struct Loops {
    running: Vec<Weak<Pulse>>,
    /// Loops that ended by a failure, and how; until one of that name starts again.
    fallen: BTreeMap<&'static str, String>,
}

impl Pulses {
    /// A pulse that health looks at until it is dropped.
    pub(crate) fn start(&self, name: &'static str) -> Arc<Pulse> {
        let beat = Beat { turned: Instant::now(), rests: false, failing: BTreeMap::new() };
        let pulse = Arc::new(Pulse { name, beat: Mutex::new(beat), pulses: self.clone() });
        let mut loops = self.lock();
        loops.fallen.remove(name);
        loops.running.retain(|pulse| pulse.strong_count() > 0);
        loops.running.push(Arc::downgrade(&pulse));
        pulse
    }

    fn lock(&self) -> MutexGuard<'_, Loops> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn findings(&self, now: Instant) -> Vec<Finding> {
        let loops = self.lock();
        let running: Vec<_> = loops.running.iter().filter_map(Weak::upgrade).collect();
        let fallen = loops.fallen.iter().map(|(name, text)| unhealthy(name, text.clone()));
        let mut findings: Vec<_> = fallen.collect();
        // Whoever drops the last handle of a pulse needs the lock.
        drop(loops);
        findings.extend(running.iter().filter_map(|pulse| pulse.finding(now)));
        findings
    }
}

/// Whether one loop turns, and whether its calls succeed.
pub(crate) struct Pulse {
    name: &'static str,
    beat: Mutex<Beat>,
    pulses: Pulses,
}

struct Beat {
    turned: Instant,
    /// Nobody expects it to turn.
    rests: bool,
    /// By kind of call: how many failed since the last that succeeded, and how the last one failed.
    failing: BTreeMap<&'static str, (u32, String)>,
}

impl Pulse {
    fn lock(&self) -> MutexGuard<'_, Beat> {
        self.beat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop turned.
    pub(crate) fn turned(&self) {
        let mut beat = self.lock();
        beat.turned = Instant::now();
        beat.rests = false;
    }

    /// The loop stands still until somebody turns it again, and that is no stall.
    pub(crate) fn rests(&self) {
        self.lock().rests = true;
    }

    /// A call succeeded.
    pub(crate) fn passed(&self, call: &'static str) {
        self.lock().failing.remove(call);
    }

    /// A call failed; answers whether it is the first of this kind that did since one succeeded.
    pub(crate) fn failed(&self, call: &'static str, error: &Error) -> bool {
        let mut beat = self.lock();
        let (failures, text) = beat.failing.entry(call).or_default();
        *failures = failures.saturating_add(1);
        *text = error.to_string();
        *failures == 1
    }

    /// The loop ends by a failure.
    pub(crate) fn fell(&self, error: &Error) {
        self.pulses.lock().fallen.insert(self.name, format!("has ended: {error}"));
    }

    fn finding(&self, now: Instant) -> Option<Finding> {
        let beat = self.lock();
        let still = now.saturating_duration_since(beat.turned);
        let text = if let Some((call, (failures, error))) = beat.failing.first_key_value() {
            format!("{failures} calls of {call} failed in a row, the last with: {error}")
        } else if still > STALLED_AFTER && !beat.rests {
            format!("has not turned for {} s: something blocks its thread", still.as_secs())
        } else {
            return None;
        };
        Some(unhealthy(self.name, text))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.pulses.lock().fallen.insert(self.name, "has panicked: see the log".to_owned());
        }
    }
}

fn unhealthy(subject: &str, text: String) -> Finding {
    Finding { level: Level::Unhealthy, subject: subject.to_owned(), text }
}
