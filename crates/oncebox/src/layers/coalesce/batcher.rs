//! The batcher of one operation, as its callers see it: a call runs directly while no other call is queued or in
//! flight, and goes to the dispatcher otherwise.
//!
//! | who is there | what a new call does |
//! |---|---|
//! | nobody | runs directly, in its caller's future |
//! | a direct call | starts the dispatcher and is queued |
//! | the dispatcher, with or without a direct call | is queued |
//!
//! However they end, a direct call is marked as ended when its future is dropped, and the dispatcher's end of the
//! channel is closed. Nothing else has to be put in order.

mod dispatcher;

use std::hash::RandomState;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use oncebox_core::{Error, ErrorKind, Store};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{Notify, Semaphore, TryAcquireError, mpsc, oneshot};

use super::CoalesceOptions;
use super::batch::interrupted;
use super::blocked::BlockedCalls;
use super::op::{BatchOp, CallSize, ConflictKey, execute_in_time};
use super::pacing::Pacing;
use super::queue::QueuedCall;
use dispatcher::Dispatcher;

pub(super) struct Batcher<O: BatchOp> {
    store: Arc<dyn Store>,
    blocked: Arc<BlockedCalls>,
    pacing: Arc<Pacing>,
    batches_max: usize,
    hasher: RandomState,
    /// One permit for each further call that may wait, which bounds the channel too. Closed with the store.
    waiting: Arc<Semaphore>,
    /// Wakes the dispatcher: a direct call ended or is blocked, a waiting caller is gone, or the store was closed.
    changed: Notify,
    entry: Mutex<Entry<O>>,
}

/// Who makes the calls. Calls are admitted one after another, so that they keep their order.
struct Entry<O: BatchOp> {
    /// The last direct call; it may have ended.
    direct: Option<Arc<DirectCall>>,
    dispatcher: Option<mpsc::UnboundedSender<QueuedCall<O>>>,
}

impl<O: BatchOp> Batcher<O> {
    pub(super) fn new(
        store: Arc<dyn Store>,
        blocked: Arc<BlockedCalls>,
        pacing: Arc<Pacing>,
        options: CoalesceOptions,
    ) -> Arc<Self> {
        let waiting = options.waiting_calls_max.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            store,
            blocked,
            pacing,
            batches_max: options.batches_max.get(),
            hasher: RandomState::new(),
            waiting: Arc::new(Semaphore::new(waiting)),
            changed: Notify::new(),
            entry: Mutex::new(Entry { direct: None, dispatcher: None }),
        })
    }

    /// Makes a call, directly or in a batch.
    pub(super) async fn call<'a>(self: &'a Arc<Self>, items: O::Borrowed<'a>) -> Result<O::Output, Error> {
        let size = O::size(items);
        if size.items == 0 {
            return O::execute(&*self.store, items).await;
        }
        let mut keys = O::conflict_keys(items, &self.hasher);
        keys.sort_unstable();
        keys.dedup();
        self.pacing.call_arrived();
        match self.enter_directly(size, keys) {
            Ok(direct) => self.call_directly(direct, items, size).await,
            Err(keys) => self.call_in_batch(items, size, &keys).await,
        }
    }

    /// Lets a call run directly if no other call is queued or in flight, and none is expected. Otherwise returns its
    /// keys.
    fn enter_directly(
        &self,
        size: CallSize,
        keys: Vec<ConflictKey>,
    ) -> Result<DirectSlot<'_>, Vec<ConflictKey>> {
        let mut entry = self.lock();
        let dispatched = entry.dispatcher.as_ref().is_some_and(|dispatcher| !dispatcher.is_closed());
        let is_alone = !dispatched && entry.direct.as_ref().is_none_or(|direct| direct.has_ended());
        if !is_alone || !self.pacing.can_start(size.items) {
            return Err(keys);
        }
        let (is_blocked, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let call = Arc::new(DirectCall { keys, is_blocked, has_ended });
        entry.direct = Some(call.clone());
        Ok(DirectSlot { call, changed: &self.changed })
    }

    async fn call_directly<'a>(
        &'a self,
        direct: DirectSlot<'_>,
        items: O::Borrowed<'a>,
        size: CallSize,
    ) -> Result<O::Output, Error> {
        let in_flight = self.pacing.start_batch(size.items);
        let mut result = execute_in_time::<O>(&*self.store, items).await;
        drop(in_flight);
        if result.as_ref().is_err_and(Error::is_blocked) {
            direct.block();
            result = self.blocked.run::<O>(items).await;
        }
        self.pacing.calls_answered(1);
        result
    }

    async fn call_in_batch<'a>(
        self: &'a Arc<Self>,
        items: O::Borrowed<'a>,
        size: CallSize,
        keys: &[ConflictKey],
    ) -> Result<O::Output, Error> {
        loop {
            let permit = match self.waiting.clone().try_acquire_owned() {
                Ok(permit) => permit,
                Err(TryAcquireError::NoPermits) => return Err(saturated()),
                // The store reports that it is closed.
                Err(TryAcquireError::Closed) => return O::execute(&*self.store, items).await,
            };
            let (answer, answered) = oneshot::channel();
            self.send(QueuedCall { items: O::owned(items), size, keys: keys.to_vec(), answer, permit })?;
            let gone = CallerGone { changed: &self.changed };
            let result = answered.await;
            // The caller is still there.
            mem::forget(gone);
            // Without an answer, the dispatcher ended with its runtime before the call was in flight.
            if let Ok(result) = result {
                return result;
            }
        }
    }

    /// Passes a call to the dispatcher, which is started if there is none.
    fn send(self: &Arc<Self>, mut call: QueuedCall<O>) -> Result<(), Error> {
        let mut entry = self.lock();
        if let Some(dispatcher) = &entry.dispatcher {
            match dispatcher.send(call) {
                Ok(()) => return Ok(()),
                Err(SendError(returned)) => call = returned,
            }
        }
        let (sender, calls) = mpsc::unbounded_channel();
        tokio::spawn(Dispatcher::new(self.clone(), entry.direct.clone(), calls).run());
        sender.send(call).map_err(|_| interrupted())?;
        entry.dispatcher = Some(sender);
        Ok(())
    }

    /// Fails all waiting calls. Later calls pass straight to the store, which reports that it is closed.
    pub(super) fn close(&self) {
        self.waiting.close();
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Entry<O>> {
        // No code under this lock panics halfway, so poisoned data is consistent.
        self.entry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs in its caller's future, as the dispatcher sees it.
struct DirectCall {
    keys: Vec<ConflictKey>,
    /// It waits for a lock of another transaction, and uses no slot.
    is_blocked: AtomicBool,
    has_ended: AtomicBool,
}

impl DirectCall {
    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    fn uses_slot(&self) -> bool {
        !self.has_ended() && !self.is_blocked.load(Ordering::Relaxed)
    }
}

/// Marks a direct call as ended when it is dropped.
struct DirectSlot<'a> {
    call: Arc<DirectCall>,
    changed: &'a Notify,
}

impl DirectSlot<'_> {
    fn block(&self) {
        self.call.is_blocked.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }
}

impl Drop for DirectSlot<'_> {
    fn drop(&mut self) {
        self.call.has_ended.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

/// Wakes the dispatcher when the caller of a waiting call is dropped.
struct CallerGone<'a> {
    changed: &'a Notify,
}

impl Drop for CallerGone<'_> {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

fn saturated() -> Error {
    let text =
        "too many calls are waiting for the store; nothing was accepted, slow down and retry the call later";
    Error::new(ErrorKind::Saturated, text)
}
