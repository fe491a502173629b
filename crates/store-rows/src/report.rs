//! Counts of lapsed leases, expired messages and deaths since the last maintenance report, for metrics and logs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_core::{Deaths, MaintenanceReport};

/// What has happened since the last maintenance report.
#[derive(Default)]
pub struct PendingReport(Mutex<MaintenanceReport>);

impl PendingReport {
    fn lock(&self) -> MutexGuard<'_, MaintenanceReport> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what a step reported.
    pub fn add(&self, more: MaintenanceReport) {
        let mut pending = self.lock();
        pending.lapsed += more.lapsed;
        pending.expired += more.expired;
        for deaths in more.died {
            let same = |known: &&mut Deaths| {
                known.namespace == deaths.namespace
                    && known.topic == deaths.topic
                    && known.reason == deaths.reason
            };
            match pending.died.iter_mut().find(same) {
                Some(known) => known.count += deaths.count,
                None => pending.died.push(deaths),
            }
        }
    }

    /// Takes everything that was added since the last time.
    pub fn take(&self) -> MaintenanceReport {
        let mut report = std::mem::take(&mut *self.lock());
        report.died.sort_by(|one, other| {
            (one.namespace, &one.topic, one.reason).cmp(&(other.namespace, &other.topic, other.reason))
        });
        report
    }
}
