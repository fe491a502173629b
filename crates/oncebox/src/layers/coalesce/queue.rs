//! Which calls wait, what they wait for, and which go together: decisions only, made under the batcher's lock.
//!
//! A call acquires its conflict keys when it is queued, or waits for them behind earlier calls. It is ready when it
//! holds all of its keys, and it holds them until it is completed. So two calls with a key in common neither run at
//! once nor overtake each other; and as all keys of a call are requested at once, there is no deadlock.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::task::Waker;

use oncebox_core::{Error, ErrorKind};

use super::CoalesceOptions;
use super::op::{CallSize, ConflictKey};

/// The number of a call, in the order of arrival.
pub(super) type Id = u64;

/// The calls of one operation that wait or are in flight.
pub(super) struct Queue<C, A> {
    options: CoalesceOptions,
    calls: BTreeMap<Id, QueuedCall<C, A>>,
    /// The keys that are held, each with the calls that wait for it.
    held_keys: HashMap<ConflictKey, BTreeSet<Id>>,
    /// The waiting calls that hold all of their keys, and only need a slot.
    ready: BTreeSet<Id>,
    waiting: usize,
    /// Slots in use: batches, and calls that run directly.
    in_flight: usize,
    /// The slots that collect further calls before they start a batch. Meanwhile no slot counts as free.
    collecting: usize,
    next: Id,
    closed: bool,
}

struct QueuedCall<C, A> {
    state: CallState<C, A>,
    keys: Vec<ConflictKey>,
    /// How many of its keys other calls hold.
    missing_keys: usize,
    waker: Option<Waker>,
}

enum CallState<C, A> {
    Waiting(C, CallSize),
    InFlight,
    /// In flight, and its caller is gone.
    Abandoned,
    Completed(Result<A, Error>),
}

/// How a new call proceeds.
pub(super) enum Admission {
    /// It got a free slot and this id.
    Slot(Id),
    /// It has to be queued.
    Queue,
    /// The queue is closed.
    Closed,
}

/// Calls that go together, in the order of arrival.
pub(super) type Batch<C> = Vec<(Id, C)>;

impl<C, A> Queue<C, A> {
    pub(super) fn new(options: CoalesceOptions) -> Self {
        Self {
            options,
            calls: BTreeMap::new(),
            held_keys: HashMap::new(),
            ready: BTreeSet::new(),
            waiting: 0,
            in_flight: 0,
            collecting: 0,
            next: 0,
            closed: false,
        }
    }

    /// Takes a slot and the keys for a call that can run directly: a slot is free, and no call that waits or is in
    /// flight comes first. The keys must be distinct.
    pub(super) fn admit(&mut self, keys: &[ConflictKey]) -> Result<Admission, Error> {
        if self.closed {
            return Ok(Admission::Closed);
        }
        let first = self.ready.is_empty() && keys.iter().all(|key| !self.held_keys.contains_key(key));
        if !first || !self.has_free_slot() {
            return self.check_capacity().map(|()| Admission::Queue);
        }
        self.held_keys.extend(keys.iter().map(|key| (*key, BTreeSet::new())));
        self.in_flight += 1;
        Ok(Admission::Slot(self.next_id()))
    }

    /// Queues a call. The keys must be distinct.
    pub(super) fn enqueue(&mut self, call: C, size: CallSize, keys: Vec<ConflictKey>) -> Result<Id, Error> {
        self.check_capacity()?;
        let id = self.next_id();
        let mut missing_keys = 0;
        for key in &keys {
            match self.held_keys.entry(*key) {
                Entry::Vacant(free) => drop(free.insert(BTreeSet::new())),
                Entry::Occupied(mut waiters) => {
                    waiters.get_mut().insert(id);
                    missing_keys += 1;
                }
            }
        }
        self.insert(id, call, size, keys, missing_keys);
        Ok(id)
    }

    /// Queues a call that has a slot and holds its keys, at its place in the order of arrival. The slot collects calls
    /// from then on.
    pub(super) fn enqueue_admitted(&mut self, id: Id, call: C, size: CallSize, keys: Vec<ConflictKey>) {
        self.collecting += 1;
        self.insert(id, call, size, keys, 0);
    }

    fn next_id(&mut self) -> Id {
        let id = self.next;
        self.next += 1;
        id
    }

    fn insert(&mut self, id: Id, call: C, size: CallSize, keys: Vec<ConflictKey>, missing_keys: usize) {
        if missing_keys == 0 {
            self.ready.insert(id);
        }
        self.waiting += 1;
        let state = CallState::Waiting(call, size);
        self.calls.insert(id, QueuedCall { state, keys, missing_keys, waker: None });
    }

    fn check_capacity(&self) -> Result<(), Error> {
        if self.closed {
            return Err(closed());
        }
        if self.waiting >= self.options.waiting_calls_max {
            let text = "too many calls are waiting for the store; nothing was accepted, slow down and retry the call later";
            return Err(Error::new(ErrorKind::Saturated, text));
        }
        Ok(())
    }

    fn has_free_slot(&self) -> bool {
        self.collecting == 0 && self.in_flight < self.options.batches_max.get()
    }

    /// The number of items in all ready calls.
    pub(super) fn ready_items(&self) -> usize {
        let items = |id| match self.calls.get(id)?.state {
            CallState::Waiting(_, size) => Some(size.items),
            _ => None,
        };
        self.ready.iter().filter_map(items).sum()
    }

    /// Whether [`Self::form_batch`] would return a batch.
    pub(super) fn can_form_batch(&self) -> bool {
        self.has_free_slot() && !self.ready.is_empty()
    }

    /// Takes a slot for the next batch: the ready calls, up to the first that does not fit.
    pub(super) fn form_batch(&mut self) -> Option<Batch<C>> {
        if !self.can_form_batch() {
            return None;
        }
        let (mut batch, mut total) = (Vec::new(), CallSize::default());
        while let Some(id) = self.ready.first().copied() {
            let Some(queued) = self.calls.get_mut(&id) else { break };
            let CallState::Waiting(_, size) = &queued.state else { break };
            total = total.plus(*size);
            if !batch.is_empty() && !total.fits() {
                break;
            }
            if let CallState::Waiting(call, _) = mem::replace(&mut queued.state, CallState::InFlight) {
                batch.push((id, call));
            }
            self.ready.remove(&id);
        }
        self.waiting -= batch.len();
        self.in_flight += 1;
        Some(batch)
    }

    /// Completes a call in flight and releases its keys. Returns the waker of its caller.
    pub(super) fn complete(&mut self, id: Id, result: Result<A, Error>) -> Option<Waker> {
        let queued = self.calls.get_mut(&id)?;
        let keys = mem::take(&mut queued.keys);
        let waker = queued.waker.take();
        if matches!(queued.state, CallState::Abandoned) {
            self.calls.remove(&id);
        } else {
            queued.state = CallState::Completed(result);
        }
        self.release(&keys);
        waker
    }

    pub(super) fn begin_collecting(&mut self) {
        self.collecting += 1;
    }

    pub(super) fn end_collecting(&mut self) {
        self.collecting -= 1;
    }

    /// Releases the slot of a batch or of a direct call.
    pub(super) fn end_batch(&mut self) {
        self.in_flight -= 1;
    }

    /// Takes the result of a call, or registers a waker for it.
    pub(super) fn poll_result(&mut self, id: Id, waker: &Waker) -> Option<Result<A, Error>> {
        let queued = self.calls.get_mut(&id)?;
        if !matches!(queued.state, CallState::Completed(_)) {
            queued.waker = Some(waker.clone());
            return None;
        }
        match self.calls.remove(&id)?.state {
            CallState::Completed(result) => Some(result),
            _ => None,
        }
    }

    /// Forgets the caller of a call. If the call is not in flight, it does not happen.
    pub(super) fn cancel(&mut self, id: Id) {
        let Some(queued) = self.calls.get_mut(&id) else { return };
        if matches!(queued.state, CallState::InFlight) {
            queued.state = CallState::Abandoned;
            queued.waker = None;
        } else {
            self.withdraw(id);
            self.calls.remove(&id);
        }
    }

    /// Rejects new calls from now on, and fails all waiting ones. Returns their wakers.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        let waits = |(id, queued): (&Id, &QueuedCall<C, A>)| {
            matches!(queued.state, CallState::Waiting(..)).then_some(*id)
        };
        let waiting: Vec<_> = self.calls.iter().filter_map(waits).collect();
        let wakers = waiting.into_iter().filter_map(|id| {
            self.withdraw(id);
            self.complete(id, Err(closed()))
        });
        wakers.collect()
    }

    /// Takes the wakers of all waiting calls; each can form a batch when it is polled.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        let waiting = self.calls.values_mut().filter(|queued| matches!(queued.state, CallState::Waiting(..)));
        waiting.filter_map(|queued| queued.waker.take()).collect()
    }

    /// Releases the keys of a waiting call, and those it waits for.
    fn withdraw(&mut self, id: Id) {
        let Some(queued) = self.calls.get_mut(&id) else { return };
        if !matches!(queued.state, CallState::Waiting(..)) {
            return;
        }
        let keys = mem::take(&mut queued.keys);
        self.waiting -= 1;
        self.ready.remove(&id);
        for key in keys {
            let was_waiting = self.held_keys.get_mut(&key).is_some_and(|waiters| waiters.remove(&id));
            if !was_waiting {
                self.release(&[key]);
            }
        }
    }

    /// Passes each of these keys to the next call that waits for it.
    pub(super) fn release(&mut self, keys: &[ConflictKey]) {
        for key in keys {
            let Some(id) = self.held_keys.get_mut(key).and_then(BTreeSet::pop_first) else {
                self.held_keys.remove(key);
                continue;
            };
            let Some(queued) = self.calls.get_mut(&id) else { continue };
            queued.missing_keys -= 1;
            if queued.missing_keys == 0 {
                self.ready.insert(id);
            }
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the store is closed: open it again")
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{Admission, CallSize, CoalesceOptions, Queue};

    /// However calls end, the queue keeps nothing of them.
    #[test]
    fn ended_calls_leave_nothing_in_the_queue() {
        let size = CallSize { items: 1, messages: 0, bytes: 0 };
        let mut queue = Queue::<(), ()>::new(CoalesceOptions::DEFAULT);
        for key in [1, 2] {
            assert!(matches!(queue.admit(&[key]), Ok(Admission::Slot(_))));
        }
        let [completed, cancelled_late, unread, blocked, cancelled_early] =
            [[3, 4], [5, 6], [7, 8], [3, 1], [9, 3]]
                .map(|keys| queue.enqueue((), size, keys.into()).unwrap());
        queue.release(&[2]);
        queue.end_batch();
        assert_eq!(queue.form_batch().map(|batch| batch.len()), Some(3));
        queue.cancel(cancelled_late);
        queue.cancel(cancelled_early);
        for id in [completed, cancelled_late, unread] {
            queue.complete(id, Ok(()));
        }
        queue.end_batch();
        assert!(queue.poll_result(completed, Waker::noop()).is_some());
        queue.cancel(unread);
        assert!(!queue.can_form_batch(), "one call is left, and waits for key 1");
        queue.release(&[1]);
        queue.end_batch();
        queue.close();
        queue.cancel(blocked);
        let Queue { calls, held_keys, ready, waiting, in_flight, .. } = &queue;
        let left = (calls.len(), held_keys.len(), ready.len(), *waiting, *in_flight);
        assert_eq!(left, (0, 0, 0, 0, 0));
    }
}
