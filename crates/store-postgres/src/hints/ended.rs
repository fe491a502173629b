//! What has ended since upkeep last told: counts, for metrics and logs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use oncebox_core::{Deaths, Upkept};

/// What has ended since it was last told.
#[derive(Default)]
pub(crate) struct Ended(Mutex<Upkept>);

impl Ended {
    fn lock(&self) -> MutexGuard<'_, Upkept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, more: Upkept) {
        let mut ended = self.lock();
        ended.lapsed += more.lapsed;
        ended.expired += more.expired;
        for deaths in more.died {
            let same = |known: &&mut Deaths| {
                known.namespace == deaths.namespace
                    && known.topic == deaths.topic
                    && known.reason == deaths.reason
            };
            match ended.died.iter_mut().find(same) {
                Some(known) => known.count += deaths.count,
                None => ended.died.push(deaths),
            }
        }
    }

    pub(crate) fn take(&self) -> Upkept {
        let mut upkept = std::mem::take(&mut *self.lock());
        upkept.died.sort_by(|one, other| {
            (one.namespace, &one.topic, one.reason).cmp(&(other.namespace, &other.topic, other.reason))
        });
        upkept
    }
}
