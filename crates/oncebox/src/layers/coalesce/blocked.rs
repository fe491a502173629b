//! Calls that are blocked by a lock of another transaction. They wait here, so that they delay only calls for the same
//! keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncebox_core::{Error, Store};
use tokio::sync::Semaphore;

use super::op::BatchOp;

/// Maximum number of blocked calls that are kept waiting: of `work`, of `extend`, and of `observe`, `accept` and `begin`
/// together. A further blocked call fails with [`Error::is_blocked`].
pub const BLOCKED_CALLS_MAX: usize = 1_000;
/// Blocked calls of a group that run at once: each may occupy a connection for as long as it is blocked.
const BLOCKED_CONCURRENCY: usize = 2;

/// The blocked calls of a group of operations.
pub(super) struct BlockedCalls {
    /// Waits for locks, where the store that batches go to fails.
    blocking: Arc<dyn Store>,
    permits: Semaphore,
    count: AtomicUsize,
}

impl BlockedCalls {
    pub(super) fn new(blocking: Arc<dyn Store>) -> Arc<Self> {
        let permits = Semaphore::new(BLOCKED_CONCURRENCY);
        Arc::new(Self { blocking, permits, count: AtomicUsize::new(0) })
    }

    /// Runs a call for as long as it takes. Fails, and changes nothing, if [`BLOCKED_CALLS_MAX`] calls are waiting
    /// already.
    pub(super) async fn run<'a, O: BatchOp>(&'a self, items: O::Borrowed<'a>) -> Result<O::Output, Error> {
        let Some(_counted) = CountGuard::below(BLOCKED_CALLS_MAX, &self.count) else {
            let text = "too many calls are blocked by locks of other transactions; nothing was changed, retry the call later";
            return Err(Error::blocked(text));
        };
        let _permit = self.permits.acquire().await;
        O::execute(&*self.blocking, items).await
    }
}

/// Counts one blocked call until it is dropped.
struct CountGuard<'a>(&'a AtomicUsize);

impl<'a> CountGuard<'a> {
    /// None if the count is `max` already.
    fn below(max: usize, count: &'a AtomicUsize) -> Option<Self> {
        let guard = Self(count);
        // A rejected call is included in the count until its guard is dropped.
        (count.fetch_add(1, Ordering::Relaxed) < max).then_some(guard)
    }
}

impl Drop for CountGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
