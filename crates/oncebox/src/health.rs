//! Health: whether the background loops of this process make progress, whether the store responds, and how full it is.

use std::fmt;
use std::time::Duration;

use tokio::time::Instant;

use crate::loop_monitor::LoopProblem;
use crate::shared::{Oncebox, Shared};

pub use oncebox_core::{Bound, Usage};

/// Usage from which a bound is reported as nearly full (RULE-20).
const FULL_SHARE: f64 = 0.8;
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

impl Oncebox {
    /// Checks the background loops of this process, the store, and its bounds.
    pub async fn health(&self) -> Health {
        Health::of(&self.shared()).await
    }
}

impl Health {
    async fn of(shared: &Shared) -> Self {
        let problems = shared.monitors.problems(Instant::now()).into_iter();
        let mut findings: Vec<_> = problems.map(|LoopProblem { name, text }| unhealthy(name, text)).collect();
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

fn unhealthy(subject: &str, text: String) -> HealthFinding {
    HealthFinding { level: HealthLevel::Unhealthy, subject: subject.to_owned(), text }
}
