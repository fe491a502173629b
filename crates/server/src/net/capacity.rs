//! How many connections there may be at once, and which one gives way to a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{info, warn};

use super::activity::Activity;

/// While every connection has a request, a new one waits; after this long it is seen whether one has become idle.
const RETRY: Duration = Duration::from_millis(100);

/// The connections of one kind of listener.
pub(crate) struct Capacity {
    limit: usize,
    /// The setting that raises the limit.
    setting: &'static str,
    permits: Arc<Semaphore>,
    open: Mutex<Open>,
    /// Whether the limit was reached, until a tenth of the connections is free again.
    full: AtomicBool,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// New connections for which another one has to end.
    waiting: usize,
    activities: HashMap<u64, Arc<Activity>>,
}

impl Capacity {
    pub(crate) fn new(limit: usize, setting: &'static str) -> Arc<Self> {
        Arc::new(Self {
            limit,
            setting,
            permits: Arc::new(Semaphore::new(limit)),
            open: Mutex::default(),
            full: AtomicBool::new(false),
        })
    }

    /// What an operator should know, if the limit is reached.
    pub(crate) fn finding(&self) -> Option<String> {
        self.full.load(Ordering::Acquire).then(|| {
            format!(
                "all {} connections are in use: the oldest idle one is closed for each new one; raise {} or find out who \
                 opens so many",
                self.limit, self.setting
            )
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No update can panic halfway.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits one more connection. At the limit the one that has been idle the longest is closed for it; while all have
    /// requests, it waits.
    pub(super) async fn admit(self: &Arc<Self>, activity: &Arc<Activity>) -> Admitted {
        let permit = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.make_way().await,
        };
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.activities.insert(number, Arc::clone(activity));
        Admitted { capacity: Arc::clone(self), number, _permit: permit }
    }

    async fn make_way(&self) -> OwnedSemaphorePermit {
        let _waiting = Waiting::new(self);
        self.filled();
        loop {
            self.close_idle();
            if let Ok(Ok(permit)) = timeout(RETRY, self.permits.clone().acquire_owned()).await {
                return permit;
            }
        }
    }

    /// Closes the connection that has been idle the longest, unless one that was chosen before is about to close.
    pub(super) fn close_idle(&self) {
        let open = self.open();
        let idle = open.activities.values().filter_map(|activity| Some((activity.idle_rank()?, activity)));
        // A connection that was chosen and is idle has only to notice.
        let rank = |(rank, activity): &(_, &Arc<Activity>)| (!activity.unwanted().is_cancelled(), *rank);
        if let Some((_, oldest)) = idle.min_by_key(rank) {
            oldest.unwanted().cancel();
        }
    }

    fn filled(&self) {
        if !self.full.swap(true, Ordering::AcqRel) {
            warn!(
                limit = self.limit,
                setting = self.setting,
                "all connections are in use: the oldest idle one is closed for each new one"
            );
        }
    }

    fn left(&self, number: u64) {
        let mut open = self.open();
        open.activities.remove(&number);
        let free = self.limit.saturating_sub(open.activities.len() + open.waiting);
        drop(open);
        if free * 10 >= self.limit && self.full.swap(false, Ordering::AcqRel) {
            info!(limit = self.limit, setting = self.setting, "connections are available again");
        }
    }
}

/// A new connection that waits; it may be given up.
struct Waiting<'a>(&'a Capacity);

impl<'a> Waiting<'a> {
    fn new(capacity: &'a Capacity) -> Self {
        capacity.open().waiting += 1;
        Self(capacity)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.open().waiting -= 1;
    }
}

/// A connection that was admitted; it leaves when this is dropped.
pub(super) struct Admitted {
    capacity: Arc<Capacity>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.capacity.left(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, advance, timeout};

    use super::super::activity::{Activity, Limits};
    use super::{Admitted, Capacity};

    const MINUTE: Duration = Duration::from_secs(60);

    fn activity() -> Arc<Activity> {
        Activity::new(Limits { idle: MINUTE, head: MINUTE, write: MINUTE })
    }

    /// Ends when it is chosen, as a connection does.
    fn connection(activity: &Arc<Activity>, admitted: Admitted) {
        let activity = Arc::clone(activity);
        tokio::spawn(async move {
            activity.unwanted().cancelled().await;
            drop(admitted);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_one_that_idles_the_longest_gives_way() {
        let capacity = Capacity::new(3, "connections_max");
        let mut known = Vec::new();
        for _ in 0..3 {
            let activity = activity();
            connection(&activity, capacity.admit(&activity).await);
            advance(Duration::from_secs(1)).await;
            known.push(activity);
        }
        assert_eq!(capacity.finding(), None);
        // The first is being answered, the second is sending a head.
        let request = known[0].begin();
        known[1].arrived();
        let chosen = || known.iter().map(|known| known.unwanted().is_cancelled()).collect::<Vec<_>>();
        let start = Instant::now();
        let late = activity();
        let admitted = capacity.admit(&late).await;
        assert_eq!((chosen(), start.elapsed()), (vec![false, false, true], Duration::ZERO));
        assert!(capacity.finding().is_some_and(|text| text.contains("connections_max")));
        let busy = late.begin();
        let later = activity();
        let second = capacity.admit(&later).await;
        assert_eq!(chosen(), [false, true, true]);
        let busier = later.begin();
        assert!(timeout(MINUTE, capacity.admit(&activity())).await.is_err(), "all have requests");
        assert_eq!(chosen(), [false, true, true]);
        drop(request);
        let last = timeout(MINUTE, capacity.admit(&activity())).await.expect("one became idle");
        assert_eq!(chosen(), [true, true, true]);
        drop((admitted, second, last, busy, busier));
        assert_eq!(capacity.finding(), None, "there are free ones again");
    }
}
