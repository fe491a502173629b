//! Points in time that a sender sets: absolute, or relative to when the message is enqueued.

use std::time::{Duration, SystemTime};

use oncebox_core::{Clock, Timestamp};
use oncebox_system::timestamp;

/// A point in time, from a [`SystemTime`] or a [`Timestamp`].
#[derive(Debug, Clone, Copy)]
pub struct Moment(When);

#[derive(Debug, Clone, Copy)]
enum When {
    At(Timestamp),
    In(Duration),
}

impl Moment {
    /// `delay` after the message is enqueued.
    pub(crate) fn after(delay: Duration) -> Self {
        Self(When::In(delay))
    }

    /// The store time, for a message that is enqueued now.
    pub(crate) fn resolve(self, clock: &dyn Clock) -> Timestamp {
        match self.0 {
            When::At(moment) => moment,
            When::In(delay) => clock.now().after(delay),
        }
    }

    /// The store time, if it does not depend on when the message is enqueued.
    pub(super) fn fixed(self) -> Option<Timestamp> {
        match self.0 {
            When::At(moment) => Some(moment),
            When::In(_) => None,
        }
    }
}

impl From<Timestamp> for Moment {
    fn from(moment: Timestamp) -> Self {
        Self(When::At(moment))
    }
}

impl From<SystemTime> for Moment {
    /// A time before 1970 counts as 1970.
    fn from(time: SystemTime) -> Self {
        timestamp(time).into()
    }
}
