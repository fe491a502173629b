//! The batcher of one operation: a call runs directly if a slot is free, and in a batch otherwise.

mod runner;

use std::hash::RandomState;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use oncebox_core::{Error, Store};
use tokio::runtime::Handle;

use super::CoalesceOptions;
use super::blocked::BlockedCalls;
use super::op::{BatchOp, CallSize, ConflictKey};
use super::pacing::Pacing;
use super::queue::{Admission, Id, Queue};
use runner::{BatchRunner, Collecting};

pub(super) struct Batcher<O: BatchOp> {
    pub(super) inner: Arc<dyn Store>,
    blocked: Arc<BlockedCalls>,
    pub(super) pacing: Arc<Pacing>,
    hasher: RandomState,
    queue: Mutex<Queue<O::Owned, O::Output>>,
}

impl<O: BatchOp> Batcher<O> {
    pub(super) fn new(
        inner: Arc<dyn Store>,
        blocked: Arc<BlockedCalls>,
        pacing: Arc<Pacing>,
        options: CoalesceOptions,
    ) -> Arc<Self> {
        Arc::new(Self {
            inner,
            blocked,
            pacing,
            hasher: RandomState::new(),
            queue: Mutex::new(Queue::new(options)),
        })
    }

    /// Makes a call, directly or in a batch.
    pub(super) async fn call<'a>(self: &'a Arc<Self>, items: O::Borrowed<'a>) -> Result<O::Output, Error> {
        let size = O::size(items);
        if size.items == 0 {
            return O::execute(&*self.inner, items).await;
        }
        let mut keys = O::conflict_keys(items, &self.hasher);
        keys.sort_unstable();
        keys.dedup();
        self.pacing.call_arrived();
        let admission = self.lock().admit(&keys)?;
        match admission {
            Admission::Slot(id) => match Handle::try_current() {
                Ok(runtime) if !self.pacing.can_start(size.items) => {
                    let collecting = self.collect_from(id, O::owned(items), size, keys);
                    runtime.spawn(BatchRunner::collecting(collecting).run());
                    PendingCall { batcher: self, id }.await
                }
                _ => {
                    let slot = DirectCall { batcher: self, keys, slot_released: false };
                    self.call_directly(slot, items, size).await
                }
            },
            Admission::Closed => O::execute(&*self.inner, items).await,
            Admission::Queue => {
                let call = O::owned(items);
                let id = self.lock().enqueue(call, size, keys)?;
                PendingCall { batcher: self, id }.await
            }
        }
    }

    /// Queues a call that has a slot, and leaves the slot to the batch that will contain the call. Until that batch
    /// starts, other calls queue up too.
    fn collect_from(
        self: &Arc<Self>,
        id: Id,
        call: O::Owned,
        size: CallSize,
        keys: Vec<ConflictKey>,
    ) -> Collecting<O> {
        self.lock().enqueue_admitted(id, call, size, keys);
        Collecting::already_begun(self)
    }

    async fn call_directly<'a>(
        &'a self,
        mut slot: DirectCall<'_, O>,
        items: O::Borrowed<'a>,
        size: CallSize,
    ) -> Result<O::Output, Error> {
        let in_flight = self.pacing.start_batch(size.items);
        let mut result = O::execute(&*self.inner, items).await;
        drop(in_flight);
        if result.as_ref().is_err_and(Error::is_blocked) {
            slot.release_slot();
            result = self.call_blocked(items).await;
        }
        self.pacing.calls_answered(1);
        result
    }

    /// Fails all waiting calls. Later calls pass straight to the store, which reports that it is closed.
    pub(super) fn close(&self) {
        let wakers = self.lock().close();
        wake(wakers);
    }

    /// Makes a call that is blocked by a lock of another transaction.
    pub(super) async fn call_blocked<'a>(&'a self, items: O::Borrowed<'a>) -> Result<O::Output, Error> {
        self.blocked.run::<O>(items).await
    }

    /// Completes a call that left its batch.
    pub(super) fn complete(self: &Arc<Self>, id: Id, result: Result<O::Output, Error>) {
        let mut queue = self.lock();
        let waker = queue.complete(id, result);
        self.unlock_and_dispatch(queue);
        wake(waker.into_iter().collect());
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Queue<O::Owned, O::Output>> {
        // No code under this lock panics halfway, so a poisoned queue is consistent.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases the lock and starts the batches that can start now.
    pub(super) fn unlock_and_dispatch(self: &Arc<Self>, queue: MutexGuard<'_, Queue<O::Owned, O::Output>>) {
        let can_form = queue.can_form_batch();
        drop(queue);
        if can_form {
            self.dispatch();
        }
    }

    /// Starts as many batches as can be formed.
    fn dispatch(self: &Arc<Self>) {
        let Ok(runtime) = Handle::try_current() else {
            // A future is dropped outside of its runtime. The next waiting call that is polled dispatches instead.
            let wakers = self.lock().take_wakers();
            return wake(wakers);
        };
        loop {
            // Spawned without the lock: a runtime that shuts down drops the task at once, and its drop takes the lock.
            let batch = self.lock().form_batch();
            let Some(batch) = batch else { return };
            runtime.spawn(BatchRunner::new(self.clone(), batch).run());
        }
    }
}

pub(super) fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

/// The slot and the conflict keys of a call that runs outside of a batch. Dropping it releases them, however the call
/// ended.
struct DirectCall<'a, O: BatchOp> {
    batcher: &'a Arc<Batcher<O>>,
    keys: Vec<ConflictKey>,
    /// Another call may have the slot by now; the keys are still held.
    slot_released: bool,
}

impl<O: BatchOp> DirectCall<'_, O> {
    /// Releases the slot of a blocked call: calls for other keys need not wait for its lock.
    fn release_slot(&mut self) {
        self.slot_released = true;
        let mut queue = self.batcher.lock();
        queue.end_batch();
        self.batcher.unlock_and_dispatch(queue);
    }
}

impl<O: BatchOp> Drop for DirectCall<'_, O> {
    fn drop(&mut self) {
        let mut queue = self.batcher.lock();
        queue.release(&self.keys);
        if !self.slot_released {
            queue.end_batch();
        }
        self.batcher.unlock_and_dispatch(queue);
    }
}

/// Waits for the result of a queued call.
struct PendingCall<'a, O: BatchOp> {
    batcher: &'a Arc<Batcher<O>>,
    id: Id,
}

impl<O: BatchOp> Future for PendingCall<'_, O> {
    type Output = Result<O::Output, Error>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut queue = self.batcher.lock();
        if let Some(result) = queue.poll_result(self.id, context.waker()) {
            return Poll::Ready(result);
        }
        self.batcher.unlock_and_dispatch(queue);
        Poll::Pending
    }
}

impl<O: BatchOp> Drop for PendingCall<'_, O> {
    fn drop(&mut self) {
        let mut queue = self.batcher.lock();
        queue.cancel(self.id);
        self.batcher.unlock_and_dispatch(queue);
    }
}
