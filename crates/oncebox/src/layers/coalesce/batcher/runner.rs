//! The task that runs batches.

use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use oncebox_core::{Error, ErrorKind};

use super::{Batcher, wake};
use crate::layers::coalesce::op::{BatchOp, Offset};
use crate::layers::coalesce::queue::{Batch, Id};

/// While this lives, calls are collected for the next batch, and the batcher starts no other.
pub(super) struct Collecting<O: BatchOp>(Arc<Batcher<O>>);

impl<O: BatchOp> Collecting<O> {
    fn begin(batcher: &Arc<Batcher<O>>) -> Self {
        batcher.lock().begin_collecting();
        Self::already_begun(batcher)
    }

    /// For a caller that has recorded in the queue that calls are collected.
    pub(super) fn already_begun(batcher: &Arc<Batcher<O>>) -> Self {
        Self(batcher.clone())
    }
}

impl<O: BatchOp> Drop for Collecting<O> {
    fn drop(&mut self) {
        self.0.lock().end_collecting();
    }
}

/// A task that holds a slot and runs one batch after another while there are any.
pub(super) struct BatchRunner<O: BatchOp> {
    batcher: Arc<Batcher<O>>,
    calls: Vec<O::Owned>,
    /// The calls of the batch that have no result yet.
    unanswered: std::vec::IntoIter<Id>,
    /// Set between two batches.
    collecting: Option<Collecting<O>>,
    has_slot: bool,
}

impl<O: BatchOp> BatchRunner<O> {
    /// Takes over the slot of `batch`, and runs `batch` first.
    pub(super) fn new(batcher: Arc<Batcher<O>>, batch: Batch<O::Owned>) -> Self {
        let (unanswered, calls) = unzip(batch);
        Self { batcher, calls, unanswered, collecting: None, has_slot: true }
    }

    /// Takes over a slot, and waits for further calls before the first batch.
    pub(super) fn collecting(collecting: Collecting<O>) -> Self {
        let mut runner = Self::new(collecting.0.clone(), Batch::default());
        runner.collecting = Some(collecting);
        runner
    }

    pub(super) async fn run(mut self) {
        while self.has_slot {
            let batcher = self.batcher.clone();
            if self.collecting.is_none() {
                self.run_batch().await;
                self.collecting = Some(Collecting::begin(&batcher));
            }
            let items = batcher.lock().ready_items();
            batcher.pacing.wait_to_start(items).await;
            self.collecting = None;
            let mut queue = batcher.lock();
            queue.end_batch();
            match queue.form_batch() {
                Some(batch) => (self.unanswered, self.calls) = unzip(batch),
                None => self.has_slot = false,
            }
            batcher.unlock_and_dispatch(queue);
        }
    }

    /// Makes the calls of a batch as one store call. If that fails without effect, makes them as two calls, and so on.
    async fn run_batch(&mut self) {
        let calls = mem::take(&mut self.calls);
        let mut batch = O::Owned::default();
        let mut ends = Vec::with_capacity(calls.len());
        for call in calls {
            O::append(&mut batch, call);
            ends.push(O::end(&batch));
        }
        let batcher = self.batcher.clone();
        let (items, claims) = start_of(&ends, ends.len());
        let _in_flight = batcher.pacing.start_batch(items + claims);
        let mut parts: Vec<_> = iter::once(0..ends.len()).collect();
        while let Some(part) = parts.pop() {
            let (from, to) = (start_of(&ends, part.start), start_of(&ends, part.end));
            match O::execute(&*self.batcher.inner, O::slice(&batch, from, to)).await {
                Ok(output) => self.complete(O::split(output, from, &ends[part]).into_iter().map(Ok)),
                Err(error) if part.len() > 1 && had_no_effect(&error) => parts.extend(halves(part)),
                Err(error) if error.is_blocked() => self.defer_blocked(O::owned(O::slice(&batch, from, to))),
                Err(error) => self.complete(part.map(|_| Err(error.clone()))),
            }
        }
    }

    /// Moves the next call of the batch to a task of its own: the other calls need not wait for the lock that blocks
    /// it.
    fn defer_blocked(&mut self, call: O::Owned) {
        let Some(id) = self.unanswered.next() else { return };
        tokio::spawn(BlockedCall::new(self.batcher.clone(), id).run(call));
    }

    /// Completes the next calls of the batch.
    fn complete(&mut self, results: impl Iterator<Item = Result<O::Output, Error>>) {
        let mut queue = self.batcher.lock();
        let completed = results.zip(self.unanswered.by_ref());
        let wakers: Vec<_> = completed.filter_map(|(result, id)| queue.complete(id, result)).collect();
        drop(queue);
        self.batcher.pacing.calls_answered(wakers.len());
        wake(wakers);
    }
}

impl<O: BatchOp> Drop for BatchRunner<O> {
    /// If the store panicked or the runtime shuts down, the outcome of the calls in flight is unknown. Callers that
    /// still wait in the queue are woken: the first that is polled starts the next batch.
    fn drop(&mut self) {
        if !self.has_slot {
            return;
        }
        self.collecting = None;
        let error = interrupted();
        let mut queue = self.batcher.lock();
        let unanswered = self.unanswered.by_ref();
        let mut wakers: Vec<_> = unanswered.filter_map(|id| queue.complete(id, Err(error.clone()))).collect();
        queue.end_batch();
        wakers.extend(queue.take_wakers());
        drop(queue);
        wake(wakers);
    }
}

/// A blocked call that left its batch. Its caller gets a result even if this is dropped.
struct BlockedCall<O: BatchOp> {
    batcher: Arc<Batcher<O>>,
    id: Option<Id>,
}

impl<O: BatchOp> BlockedCall<O> {
    fn new(batcher: Arc<Batcher<O>>, id: Id) -> Self {
        Self { batcher, id: Some(id) }
    }

    /// Runs the call and passes the result to its caller.
    async fn run(mut self, call: O::Owned) {
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
        self.complete(Err(interrupted()));
    }
}

/// The error of a call whose task ended before it had a result.
fn interrupted() -> Error {
    Error::new(ErrorKind::Unavailable, "the call was interrupted and its outcome is unknown: retry it")
}

fn unzip<C>(batch: Batch<C>) -> (std::vec::IntoIter<Id>, Vec<C>) {
    let (ids, calls): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
    (ids.into_iter(), calls)
}

/// The position where the call with this index starts.
fn start_of(ends: &[Offset], call: usize) -> Offset {
    call.checked_sub(1).map_or((0, 0), |before| ends[before])
}

/// The two halves, the first one last, because parts are popped from the end.
fn halves(part: Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [middle..part.end, part.start..middle]
}

/// Whether the store changed nothing and some of the calls may succeed without the others. (A closed store is closed
/// for all.)
fn had_no_effect(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) || error.is_blocked()
}
