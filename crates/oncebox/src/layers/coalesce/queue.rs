//! The calls of one operation that wait, in the order of arrival, and the keys of those in flight.
//!
//! A call can start when none of its keys is in a call in flight or in an earlier call that waits. So two calls with a
//! key in common neither run at once nor overtake each other.

use std::collections::{HashSet, VecDeque};

use oncebox_core::{Error, ErrorKind};
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::op::{BatchOp, CallSize, ConflictKey};

/// A call whose caller waits for the answer.
pub(super) struct QueuedCall<O: BatchOp> {
    pub(super) items: O::Owned,
    pub(super) size: CallSize,
    /// Without duplicates.
    pub(super) keys: Vec<ConflictKey>,
    pub(super) answer: oneshot::Sender<Result<O::Output, Error>>,
    /// Counts the call as waiting.
    pub(super) permit: OwnedSemaphorePermit,
}

/// The waiting calls of one operation.
pub(super) struct Queue<O: BatchOp> {
    waiting: VecDeque<QueuedCall<O>>,
    /// The keys of the calls in flight.
    held_keys: HashSet<ConflictKey>,
}

impl<O: BatchOp> Queue<O> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), held_keys: HashSet::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, call: QueuedCall<O>) {
        self.waiting.push_back(call);
    }

    /// Records keys as those of a call in flight.
    pub(super) fn hold(&mut self, keys: &[ConflictKey]) {
        self.held_keys.extend(keys);
    }

    pub(super) fn release(&mut self, keys: &[ConflictKey]) {
        for key in keys {
            self.held_keys.remove(key);
        }
    }

    /// The number of items in the calls that can start.
    pub(super) fn ready_items(&self) -> usize {
        let mut keys = self.held_keys.clone();
        let ready = self.waiting.iter().filter(|call| !conflicts(call, &mut keys));
        ready.map(|call| call.size.items).sum()
    }

    /// Removes the calls that can start, up to the first that does not fit into one batch with the others, and holds
    /// their keys. Calls whose callers are gone do not happen.
    pub(super) fn take_batch(&mut self) -> Vec<QueuedCall<O>> {
        let (mut batch, mut total) = (Vec::new(), CallSize::default());
        let mut passed_over = VecDeque::new();
        let mut keys = self.held_keys.clone();
        while let Some(call) = self.waiting.pop_front() {
            if call.answer.is_closed() {
                continue;
            }
            if conflicts(&call, &mut keys) {
                passed_over.push_back(call);
                continue;
            }
            total = total.plus(call.size);
            if !batch.is_empty() && !total.fits() {
                passed_over.push_back(call);
                break;
            }
            self.held_keys.extend(&call.keys);
            batch.push(call);
        }
        passed_over.append(&mut self.waiting);
        self.waiting = passed_over;
        batch
    }

    /// Removes calls whose callers are gone, so that they no longer count as waiting and no call waits for their keys.
    pub(super) fn remove_abandoned(&mut self) {
        self.waiting.retain(|call| !call.answer.is_closed());
    }

    /// Fails all waiting calls.
    pub(super) fn close(&mut self) {
        for call in self.waiting.drain(..) {
            // The caller may be gone.
            _ = call.answer.send(Err(Error::new(ErrorKind::Closed, "the store is closed: open it again")));
        }
    }
}

/// Whether a call has one of these keys. Adds its own keys, because later calls do not overtake it.
fn conflicts<O: BatchOp>(call: &QueuedCall<O>, keys: &mut HashSet<ConflictKey>) -> bool {
    let before = keys.len();
    keys.extend(&call.keys);
    keys.len() < before + call.keys.len()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use oncebox_core::{Error, Extended, Extension};
    use tokio::sync::{Semaphore, oneshot};

    use super::{CallSize, ConflictKey, Queue, QueuedCall};
    use crate::layers::coalesce::BATCH_ITEMS_MAX;
    use crate::layers::coalesce::op::ItemsOp;

    type Caller = oneshot::Receiver<Result<Vec<Extended>, Error>>;

    /// Queues one call for each list of keys.
    fn push<const N: usize>(
        queue: &mut Queue<ItemsOp<Extension>>,
        items: usize,
        calls: [&[ConflictKey]; N],
    ) -> [Caller; N] {
        let waiting = Arc::new(Semaphore::new(N));
        calls.map(|keys| {
            let (answer, caller) = oneshot::channel();
            let size = CallSize { items, messages: 0, bytes: 0 };
            let permit = waiting.clone().try_acquire_owned().unwrap();
            queue.push(QueuedCall { items: Vec::new(), size, keys: keys.to_vec(), answer, permit });
            caller
        })
    }

    /// The keys of the calls in the next batch.
    fn batch(queue: &mut Queue<ItemsOp<Extension>>) -> Vec<Vec<ConflictKey>> {
        queue.take_batch().into_iter().map(|call| call.keys).collect()
    }

    #[test]
    fn calls_with_a_common_key_start_one_after_another() {
        let mut queue = Queue::new();
        let _callers = push(&mut queue, 1, [&[1], &[1, 2], &[2, 3], &[4]]);
        assert_eq!(queue.ready_items(), 2);
        assert_eq!(batch(&mut queue), [[1], [4]]);
        assert_eq!(queue.ready_items(), 0);
        queue.release(&[4]);
        assert!(batch(&mut queue).is_empty(), "no call overtakes the one that waits for key 1");
        queue.release(&[1]);
        assert_eq!(batch(&mut queue), [[1, 2]]);
        queue.release(&[1, 2]);
        assert_eq!(batch(&mut queue), [[2, 3]]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_call_that_does_not_fit_is_first_in_the_next_batch() {
        let mut queue = Queue::new();
        queue.hold(&[1]);
        let _callers = push(&mut queue, BATCH_ITEMS_MAX / 2, [&[1], &[2], &[3], &[4], &[5]]);
        assert_eq!(batch(&mut queue), [[2], [3]]);
        queue.release(&[1]);
        assert_eq!(batch(&mut queue), [[1], [4]], "the order of arrival is kept");
        assert_eq!(batch(&mut queue), [[5]]);
    }

    #[test]
    fn a_call_without_a_caller_does_not_happen() {
        let mut queue = Queue::new();
        queue.hold(&[1]);
        let [gone, behind] = push(&mut queue, 1, [&[1, 2], &[2]]);
        assert!(batch(&mut queue).is_empty());
        drop(gone);
        assert_eq!(batch(&mut queue), [[2]]);
        drop(push(&mut queue, 1, [&[2]]));
        queue.remove_abandoned();
        assert!(queue.is_empty());
        drop(behind);
    }
}
