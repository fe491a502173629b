//! Calls that are blocked by a lock of another transaction. They wait here, so that they delay only calls for the same
//! keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oncebox_core::{Error, Store};
use tokio::sync::Semaphore;

use super::batcher::Batcher;
use super::op::BatchOp;
use super::queue::Id;

/// Maximum number of blocked calls that are kept waiting, over all operations. A further blocked call fails with
/// [`Error::is_blocked`].
pub const BLOCKED_CALLS_MAX: usize = 1_000;
/// Blocked calls that run at once: each may occupy a connection for as long as it is blocked.
const BLOCKED_CONCURRENCY: usize = 2;

/// The blocked calls of all operations.
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

/// A blocked call that left its batch. Its caller gets a result even if this is dropped.
pub(super) struct BlockedCall<O: BatchOp> {
    batcher: Arc<Batcher<O>>,
    id: Option<Id>,
}

impl<O: BatchOp> BlockedCall<O> {
    pub(super) fn new(batcher: Arc<Batcher<O>>, id: Id) -> Self {
        Self { batcher, id: Some(id) }
    }

    /// Runs the call and passes the result to its caller.
    pub(super) async fn run(mut self, call: O::Owned) {
        let batcher = self.batcher.clone();
        let result = batcher.call_blocked(O::slice(&call, (0, 0), O::end(&call))).await;
        self.complete(result);
    }

    fn complete(&mut self, result: Result<O::Output, Error>) {
        if let Some(id) = self.id.take() {
            self.batcher.complete(id, result);
        }
    }
}

impl<O: BatchOp> Drop for BlockedCall<O> {
    fn drop(&mut self) {
        self.complete(Err(super::runner::interrupted()));
    }
}
