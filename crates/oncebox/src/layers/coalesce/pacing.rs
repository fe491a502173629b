//! When a batch starts: after larger batches in flight, and after callers that were answered a moment ago have called
//! again.
//!
//! The more items a call has, the less each of them costs a store. Callers whose calls were answered together tend to
//! call again together. If the first of them started alone, it would stay alone, one step ahead of the others for ever:
//! with PostgreSQL and 16 callers, half of the batches had one call, the others 14. Waiting for each other raised the
//! throughput of 16 callers by two thirds, and that of 64 callers by one third.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task;
use tokio::time::{Instant, timeout};

/// A batch waits for expected callers until it has yielded this often, or for this time, whichever comes first.
const CALLER_WAIT_YIELDS_MAX: usize = 32;
const CALLER_WAIT_MAX: Duration = Duration::from_millis(1);

/// A batch with at least this many items does not wait: more items would hardly make it cheaper, and stores have more
/// than one processor.
const NO_WAIT_ITEMS: usize = 32;

/// How long a batch waits for a larger one to end.
const LARGER_BATCH_WAIT_MAX: Duration = Duration::from_millis(5);

/// The callers and batches of several operations together.
#[derive(Default)]
pub(super) struct Pacing {
    /// Callers whose calls were answered and that have not called since.
    expected_callers: AtomicUsize,
    /// The number of items of each batch in flight.
    in_flight: Mutex<Vec<usize>>,
    batch_ended: Notify,
}

impl Pacing {
    /// Records that a caller has called.
    pub(super) fn call_arrived(&self) {
        // If no caller was expected, the count stays zero.
        _ = self
            .expected_callers
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
    }

    /// Records that this many calls were answered.
    pub(super) fn calls_answered(&self, calls: usize) {
        self.expected_callers.fetch_add(calls, Ordering::Relaxed);
    }

    /// Whether a batch of `items` items need not wait.
    pub(super) fn can_start(&self, items: usize) -> bool {
        items >= NO_WAIT_ITEMS
            || !self.has_larger_batch(items) && self.expected_callers.load(Ordering::Relaxed) == 0
    }

    /// Waits until a batch of `items` items may start.
    pub(super) async fn wait_to_start(&self, items: usize) {
        if items >= NO_WAIT_ITEMS {
            return;
        }
        self.wait_for_larger_batch(items).await;
        let start = Instant::now();
        for _ in 0..CALLER_WAIT_YIELDS_MAX {
            if self.expected_callers.load(Ordering::Relaxed) == 0 {
                return;
            }
            if start.elapsed() >= CALLER_WAIT_MAX {
                break;
            }
            task::yield_now().await;
        }
        // The callers that have not called by now are busy with something else.
        self.expected_callers.store(0, Ordering::Relaxed);
    }

    /// Whether a batch with more than `items` items is in flight; false if `items` is zero, as no call waits then.
    fn has_larger_batch(&self, items: usize) -> bool {
        items > 0 && self.lock().iter().any(|others| *others > items)
    }

    /// While a larger batch is in flight, waits until any batch ends: another larger one may have started by then.
    async fn wait_for_larger_batch(&self, items: usize) {
        let ended = self.batch_ended.notified();
        if self.has_larger_batch(items) {
            // A batch that takes longer may be blocked.
            _ = timeout(LARGER_BATCH_WAIT_MAX, ended).await;
        }
    }

    /// Records a batch of `items` items as in flight until the guard is dropped.
    pub(super) fn start_batch(&self, items: usize) -> InFlightBatch<'_> {
        self.lock().push(items);
        InFlightBatch { pacing: self, items }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.in_flight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A batch in flight.
pub(super) struct InFlightBatch<'a> {
    pacing: &'a Pacing,
    items: usize,
}

impl Drop for InFlightBatch<'_> {
    fn drop(&mut self) {
        let mut in_flight = self.pacing.lock();
        if let Some(index) = in_flight.iter().position(|items| *items == self.items) {
            in_flight.swap_remove(index);
        }
        drop(in_flight);
        self.pacing.batch_ended.notify_waiters();
    }
}
