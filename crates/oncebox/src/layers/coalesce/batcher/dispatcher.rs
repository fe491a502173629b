//! The dispatcher of one operation: an actor that owns the calls that wait and the batches in flight.
//!
//! It is started by the first call that cannot run directly, and ends when no call is left. Callers send their calls,
//! and wait for an answer that is either an outcome or, if the dispatcher ended with its runtime before the call was in
//! flight, nothing: then they send the call again, to a new dispatcher on their own runtime.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{self, JoinError, JoinSet, yield_now};
use tokio::time::sleep_until;

use super::{Batcher, DirectCall};
use crate::layers::coalesce::batch::{self, Answer, BlockedCall};
use crate::layers::coalesce::op::{BatchOp, ConflictKey};
use crate::layers::coalesce::pacing::{Pace, Wait};
use crate::layers::coalesce::queue::{Queue, QueuedCall};

pub(super) struct Dispatcher<O: BatchOp> {
    batcher: Arc<Batcher<O>>,
    calls: mpsc::UnboundedReceiver<QueuedCall<O>>,
    queue: Queue<O>,
    /// The direct call beside which this was started, until it ends.
    direct: Option<Arc<DirectCall>>,
    /// The batches in flight and the blocked calls, and what each of them holds.
    tasks: JoinSet<()>,
    held: HashMap<task::Id, Held>,
    /// The calls that leave their batches because they are blocked.
    blocked: (mpsc::UnboundedSender<BlockedCall<O>>, mpsc::UnboundedReceiver<BlockedCall<O>>),
    /// The wait of the next batch. Until it is over, no batch starts.
    wait: Option<Wait>,
    /// A batch ended since the last wait, so its callers are expected.
    batch_ended: bool,
}

/// What a batch in flight or a blocked call holds.
struct Held {
    /// By call.
    keys: Vec<Vec<ConflictKey>>,
    slot: bool,
}

impl<O: BatchOp> Dispatcher<O> {
    pub(super) fn new(
        batcher: Arc<Batcher<O>>,
        direct: Option<Arc<DirectCall>>,
        calls: mpsc::UnboundedReceiver<QueuedCall<O>>,
    ) -> Self {
        let mut queue = Queue::new();
        if let Some(direct) = &direct {
            queue.hold(&direct.keys);
        }
        let (tasks, held, blocked) = (JoinSet::new(), HashMap::new(), mpsc::unbounded_channel());
        Self { batcher, calls, queue, direct, tasks, held, blocked, wait: None, batch_ended: false }
    }

    pub(super) async fn run(mut self) {
        let batcher = self.batcher.clone();
        loop {
            let batch_ended = batcher.pacing.batch_ended();
            self.take_events();
            match self.start_batches() {
                Pace::Callers => yield_now().await,
                Pace::LargerBatch(until) => {
                    tokio::select! {
                        biased;
                        () = self.next_event() => {}
                        () = batch_ended => {}
                        () = sleep_until(until) => {}
                    }
                }
                Pace::Start if self.has_ended() => return,
                Pace::Start => self.next_event().await,
            }
        }
    }

    /// Takes what has happened meanwhile.
    fn take_events(&mut self) {
        while let Ok(call) = self.calls.try_recv() {
            self.queue.push(call);
        }
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.end(ended);
        }
        if let Some(ended) = self.direct.take_if(|direct| direct.has_ended()) {
            self.queue.release(&ended.keys);
        }
        if self.batcher.waiting.is_closed() {
            self.queue.close();
        }
    }

    async fn next_event(&mut self) {
        tokio::select! {
            biased;
            Some(ended) = self.tasks.join_next_with_id() => self.end(ended),
            Some(call) = self.blocked.1.recv() => self.start_blocked(call),
            Some(call) = self.calls.recv() => self.queue.push(call),
            () = self.batcher.changed.notified() => self.queue.remove_abandoned(),
        }
    }

    /// Starts the batches that can start now. Returns what the next one waits for; if that is nothing, it waits for a
    /// call or for a slot.
    fn start_batches(&mut self) -> Pace {
        if !self.has_free_slot() {
            return Pace::Start;
        }
        if self.wait.is_none() {
            let items = self.queue.ready_items();
            self.wait = (items > 0 || self.batch_ended).then(|| Wait::new(items));
            self.batch_ended = false;
        }
        let Some(wait) = &mut self.wait else { return Pace::Start };
        let pace = self.batcher.pacing.next(wait);
        if pace == Pace::Start {
            self.wait = None;
            while self.has_free_slot() {
                let calls = self.queue.take_batch();
                if calls.is_empty() {
                    break;
                }
                self.start(calls);
            }
        }
        pace
    }

    fn has_free_slot(&self) -> bool {
        let batches = self.held.values().filter(|held| held.slot).count();
        let direct = self.direct.as_ref().is_some_and(|direct| direct.uses_slot());
        batches + usize::from(direct) < self.batcher.batches_max
    }

    fn start(&mut self, calls: Vec<QueuedCall<O>>) {
        let mut keys = Vec::with_capacity(calls.len());
        let calls = calls.into_iter().map(|call| {
            keys.push(call.keys);
            drop(call.permit);
            (call.items, Answer::new(call.answer))
        });
        let calls: Vec<_> = calls.collect();
        let (batcher, blocked) = (self.batcher.clone(), self.blocked.0.clone());
        let batch = async move { batch::run(&*batcher.store, &batcher.pacing, calls, blocked).await };
        let task = self.tasks.spawn(batch).id();
        self.held.insert(task, Held { keys, slot: true });
    }

    /// Ends a batch or a blocked call.
    fn end(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        // The blocked calls of a batch keep their keys.
        while let Ok(call) = self.blocked.1.try_recv() {
            self.start_blocked(call);
        }
        let task = ended.map_or_else(|error| error.id(), |(task, ())| task);
        let Some(held) = self.held.remove(&task) else { return };
        self.queue.release(&held.keys.concat());
        self.batch_ended |= held.slot;
    }

    /// Runs a blocked call on its own, until it ends or its caller is gone.
    fn start_blocked(&mut self, call: BlockedCall<O>) {
        let BlockedCall { batch, index, items, mut answer } = call;
        let keys = self.held.get_mut(&batch).map_or_else(Vec::new, |held| mem::take(&mut held.keys[index]));
        let batcher = self.batcher.clone();
        let task = self.tasks.spawn(async move {
            let items = O::slice(&items, (0, 0), O::end(&items));
            tokio::select! {
                biased;
                () = answer.caller_gone() => {}
                result = batcher.blocked.run::<O>(items) => answer.send(result),
            }
        });
        self.held.insert(task.id(), Held { keys: vec![keys], slot: false });
    }

    /// Whether no call is left. If so, the next call runs directly or starts a new dispatcher.
    fn has_ended(&self) -> bool {
        if !self.queue.is_empty() || !self.tasks.is_empty() {
            return false;
        }
        let mut entry = self.batcher.lock();
        let ended = self.calls.is_empty();
        if ended {
            entry.dispatcher = None;
        }
        ended
    }
}
