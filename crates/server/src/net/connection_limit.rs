//! The limit of concurrent connections, and which connection is closed in favour of a new one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tracing::{info, warn};

use super::activity::Activity;

/// While every connection has a request in progress, a new one waits; idle connections are searched for at this
/// interval.
const RECHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Limits the connections of one kind of listener.
pub(crate) struct ConnectionLimit {
    limit: usize,
    /// The setting that contains the limit.
    setting: &'static str,
    permits: Arc<Semaphore>,
    open: Mutex<Open>,
    /// Whether the limit was reached, until a tenth of it is free again.
    full: AtomicBool,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// New connections that wait for another one to end.
    waiting: usize,
    activities: HashMap<u64, Arc<Activity>>,
}

impl ConnectionLimit {
    pub(crate) fn new(limit: usize, setting: &'static str) -> Arc<Self> {
        Arc::new(Self {
            limit,
            setting,
            permits: Arc::new(Semaphore::new(limit)),
            open: Mutex::default(),
            full: AtomicBool::new(false),
        })
    }

    /// A finding for operators while the limit is reached.
    pub(crate) fn finding(&self) -> Option<String> {
        self.full.load(Ordering::Acquire).then(|| {
            format!(
                "all {} connections are in use: each new connection closes the one that was idle the longest; raise {} or \
                 find out which clients open too many",
                self.limit, self.setting
            )
        })
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // No update can panic halfway.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits one more connection. At the limit, the connection that has been idle the longest is closed first; while
    /// all connections have requests in progress, the new one waits.
    pub(super) async fn admit(self: &Arc<Self>, activity: &Arc<Activity>) -> ConnectionSlot {
        let permit = match self.permits.clone().try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => self.wait_for_slot().await,
        };
        let mut open = self.open();
        let number = open.next;
        open.next += 1;
        open.activities.insert(number, Arc::clone(activity));
        ConnectionSlot { limit: Arc::clone(self), number, _permit: permit }
    }

    async fn wait_for_slot(&self) -> OwnedSemaphorePermit {
        let _waiting = Waiting::new(self);
        self.mark_full();
        loop {
            self.close_idle();
            if let Ok(Ok(permit)) = timeout(RECHECK_INTERVAL, self.permits.clone().acquire_owned()).await {
                return permit;
            }
        }
    }

    /// Closes the connection that has been idle the longest, unless one that was selected earlier is still closing.
    pub(super) fn close_idle(&self) {
        let open = self.open();
        let idle = open.activities.values().filter_map(|activity| Some((activity.idle_rank()?, activity)));
        // A selected connection that is idle closes as soon as its task runs.
        let rank =
            |(rank, activity): &(_, &Arc<Activity>)| (!activity.close_requested().is_cancelled(), *rank);
        if let Some((_, oldest)) = idle.min_by_key(rank) {
            oldest.close_requested().cancel();
        }
    }

    fn mark_full(&self) {
        if !self.full.swap(true, Ordering::AcqRel) {
            warn!(
                limit = self.limit,
                setting = self.setting,
                "all connections are in use: each new connection closes the one that was idle the longest"
            );
        }
    }

    fn closed(&self, number: u64) {
        let mut open = self.open();
        open.activities.remove(&number);
        let free = self.limit.saturating_sub(open.activities.len() + open.waiting);
        drop(open);
        if free * 10 >= self.limit && self.full.swap(false, Ordering::AcqRel) {
            info!(limit = self.limit, setting = self.setting, "connections available again");
        }
    }
}

/// Counts a waiting connection; the wait may be cancelled.
struct Waiting<'a>(&'a ConnectionLimit);

impl<'a> Waiting<'a> {
    fn new(limit: &'a ConnectionLimit) -> Self {
        limit.open().waiting += 1;
        Self(limit)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.open().waiting -= 1;
    }
}

/// The slot of an admitted connection, released on drop.
pub(super) struct ConnectionSlot {
    limit: Arc<ConnectionLimit>,
    number: u64,
    _permit: OwnedSemaphorePermit,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.limit.closed(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::{Instant, advance, timeout};
    use tokio_util::sync::CancellationToken;

    use super::super::activity::{Activity, Timeouts};
    use super::{ConnectionLimit, ConnectionSlot};

    const MINUTE: Duration = Duration::from_secs(60);

    fn activity() -> Arc<Activity> {
        Activity::new(Timeouts { idle: MINUTE, head: MINUTE, write: MINUTE }, &CancellationToken::new())
    }

    /// Ends when it is selected for closing, as a connection does.
    fn connection(activity: &Arc<Activity>, admitted: ConnectionSlot) {
        let activity = Arc::clone(activity);
        tokio::spawn(async move {
            activity.close_requested().cancelled().await;
            drop(admitted);
        });
    }

    #[tokio::test(start_paused = true)]
    async fn at_the_limit_the_longest_idle_connection_is_closed() {
        let limit = ConnectionLimit::new(3, "connections_max");
        let mut known = Vec::new();
        for _ in 0..3 {
            let activity = activity();
            connection(&activity, limit.admit(&activity).await);
            advance(Duration::from_secs(1)).await;
            known.push(activity);
        }
        assert_eq!(limit.finding(), None);
        // The first has a request in progress, the second is sending a head.
        let request = known[0].begin();
        known[1].bytes_received();
        let selected =
            || known.iter().map(|known| known.close_requested().is_cancelled()).collect::<Vec<_>>();
        let start = Instant::now();
        let late = activity();
        let admitted = limit.admit(&late).await;
        assert_eq!((selected(), start.elapsed()), (vec![false, false, true], Duration::ZERO));
        assert!(limit.finding().is_some_and(|text| text.contains("connections_max")));
        let busy = late.begin();
        let later = activity();
        let second = limit.admit(&later).await;
        assert_eq!(selected(), [false, true, true]);
        let busier = later.begin();
        assert!(timeout(MINUTE, limit.admit(&activity())).await.is_err(), "all connections have requests");
        assert_eq!(selected(), [false, true, true]);
        drop(request);
        let last = timeout(MINUTE, limit.admit(&activity())).await.expect("one connection became idle");
        assert_eq!(selected(), [true, true, true]);
        drop((admitted, second, last, busy, busier));
        assert_eq!(limit.finding(), None, "connections are available again");
    }
}
