//! When a group goes: not while a larger one is under way, nor before those have called again who were answered a moment ago.
//!
//! What a store does for an item costs the less, the more items a call has. Callers that were answered together tend to call again
//! together. If the first of them went alone, it would stay alone, one step ahead of the others for ever: with PostgreSQL and 16
//! callers, half of the groups had one call, the others 14. Waiting for each other brought 16 callers two thirds more, and 64 a third.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task;
use tokio::time::{Instant, timeout};

/// How often everybody else gets to run, and for how long, before those who were answered are waited for no longer.
const LOOKS_MAX: usize = 32;
const LOOKS_TIME: Duration = Duration::from_millis(1);

/// A group of so many items waits for nobody: more would hardly make it cheaper, and stores have more than one processor.
const ENOUGH: usize = 32;

/// How long a larger group is waited for.
const PATIENCE: Duration = Duration::from_millis(5);

/// What is known about callers and groups of several kinds of calls together.
#[derive(Default)]
pub(super) struct Crowd {
    /// Callers that were answered and have not called since.
    away: AtomicUsize,
    /// Items of each group under way.
    under_way: Mutex<Vec<usize>>,
    ended: Notify,
}

impl Crowd {
    /// Somebody calls.
    pub(super) fn came(&self) {
        // If nobody was away, it stays so.
        _ = self.away.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |away| away.checked_sub(1));
    }

    /// So many were answered.
    pub(super) fn left(&self, callers: usize) {
        self.away.fetch_add(callers, Ordering::Relaxed);
    }

    /// Whether a group of so many items need not wait.
    pub(super) fn lets_go(&self, items: usize) -> bool {
        items >= ENOUGH || !self.has_larger(items) && self.away.load(Ordering::Relaxed) == 0
    }

    /// Waits until a group of so many items may go.
    pub(super) async fn gather(&self, items: usize) {
        if items >= ENOUGH {
            return;
        }
        self.let_larger_end(items).await;
        let start = Instant::now();
        for _ in 0..LOOKS_MAX {
            if self.away.load(Ordering::Relaxed) == 0 {
                return;
            }
            if start.elapsed() >= LOOKS_TIME {
                break;
            }
            task::yield_now().await;
        }
        // They have something else to do.
        self.away.store(0, Ordering::Relaxed);
    }

    /// No larger one, if nothing waits to go.
    fn has_larger(&self, items: usize) -> bool {
        items > 0 && self.lock().iter().any(|others| *others > items)
    }

    /// Waits while a larger group is under way, until one ends: the next may be under way already.
    async fn let_larger_end(&self, items: usize) {
        let ended = self.ended.notified();
        if self.has_larger(items) {
            // Over time, it may be held up.
            _ = timeout(PATIENCE, ended).await;
        }
    }

    /// A group of so many items is under way until this is dropped.
    pub(super) fn go(&self, items: usize) -> Going<'_> {
        self.lock().push(items);
        Going { crowd: self, items }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<usize>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group under way.
pub(super) struct Going<'a> {
    crowd: &'a Crowd,
    items: usize,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        let mut under_way = self.crowd.lock();
        if let Some(place) = under_way.iter().position(|items| *items == self.items) {
            under_way.swap_remove(place);
        }
        drop(under_way);
        self.crowd.ended.notify_waiters();
    }
}
