//! State shared by callers, syncer and allocator: the engine under a lock, and the progress of the journal.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use oncebox_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use crate::commit_delay::ThinkTime;
use crate::disk_error::DiskError;
use crate::engine::{Engine, Group};
use crate::journal::Journal;

/// Size of a group at which further callers wait until it is written.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

/// A group of at least this size does not wait for more calls: writing it takes longer than a saved sync.
const DELAY_BYTES_MAX: usize = 32 << 10;

/// Which groups are written and durable, and the callers that wait for them. Groups are numbered from one.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// The newest group handed to the operating system.
    pub(crate) written: u64,
    /// The newest group on disk.
    pub(crate) durable: u64,
    /// Why the store has stopped; none while it works.
    failure: Option<String>,
    /// Waiting callers. Each is woken once, when its goal is reached or never will be: a spurious wake-up costs as much
    /// as the call.
    waiting: Vec<(Goal, oneshot::Sender<()>)>,
    /// Callers whose call could not start.
    blocked: Vec<oneshot::Sender<()>>,
}

impl Progress {
    fn has_reached(&self, goal: Goal) -> bool {
        self.written >= goal.written && self.durable >= goal.durable
    }
}

pub(crate) struct State {
    /// The store's name in log lines.
    pub(crate) name: Arc<str>,
    pub(crate) engine: Engine,
    /// The number of the current group.
    pub(crate) group_number: u64,
    /// The newest group that callers need synced.
    pub(crate) sync_target: u64,
    /// Journal bytes that callers may still use.
    pub(crate) space: u64,
    /// The largest amount of space that a blocked caller or the reclaimer needs; zero if none.
    pub(crate) space_wanted: u64,
    /// The allocator has finished a task, or a caller lacks space: the syncer must run.
    pub(crate) poll_allocator: bool,
    /// Why the journal cannot grow; none while it can.
    pub(crate) disk_error: Option<DiskError>,
    /// Reclaiming is about to free space in files that the journal already has.
    pub(crate) space_pending: bool,
    /// Total size of the journal's files.
    pub(crate) disk_bytes: u64,
    /// The syncer sleeps until it is woken.
    pub(crate) syncer_sleeps: bool,
    /// Calls that wrote into the current group.
    pub(crate) calls: usize,
    pub(crate) think_time: ThinkTime,
    /// The syncer need not be woken before `calls` reaches this number.
    pub(crate) calls_wanted: usize,
    pub(crate) lifecycle: Lifecycle,
    /// The group with the close mark, set when a caller closes the store.
    pub(crate) last_group: u64,
}

/// Whether the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Open,
    /// No calls are accepted any more; the pending group is being written.
    Closing,
    Closed,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Notified when there is work for the syncer.
    pub(crate) work: Condvar,
    progress: Mutex<Progress>,
}

impl Shared {
    pub(crate) fn new(
        name: Arc<str>,
        engine: Engine,
        journal: &Journal,
        disk_error: Option<DiskError>,
    ) -> Self {
        let state = State {
            name,
            engine,
            group_number: 1,
            sync_target: 0,
            space: journal.space(),
            space_wanted: 0,
            poll_allocator: false,
            disk_error,
            space_pending: false,
            disk_bytes: journal.bytes(),
            syncer_sleeps: false,
            calls: 0,
            think_time: ThinkTime::default(),
            calls_wanted: 0,
            lifecycle: Lifecycle::Open,
            last_group: 0,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), progress: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside the machine is a broken invariant: its state must be neither served nor written.
        self.state.lock().unwrap_or_else(|poisoned| {
            self.fail("internal error: broken invariant in the store: reopen the store");
            PoisonError::into_inner(poisoned)
        })
    }

    /// Wakes the syncer if it sleeps. The check matters: notifying costs a system call even if no thread waits.
    pub(crate) fn wake_syncer(&self, state: &mut State) {
        if state.syncer_sleeps && !state.wants_more_calls() {
            state.syncer_sleeps = false;
            self.work.notify_all();
        }
    }

    /// Locks the progress. Lock order: state before progress, never the other way round.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // No holder of this lock can panic halfway, so the value is consistent.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.progress().durable
    }

    /// Records which groups are written and durable, and wakes the callers whose goal is reached. Returns how many of
    /// them had written something.
    pub(crate) fn advance(&self, written: u64, durable: u64) -> usize {
        let mut progress = self.progress();
        (progress.written, progress.durable) = (written, durable);
        let reached = |(goal, _): &mut (Goal, _)| written >= goal.written && durable >= goal.durable;
        let woken: Vec<_> = progress.waiting.extract_if(.., reached).collect();
        drop(progress);
        let count = woken.iter().filter(|(goal, _)| goal.wrote).count();
        for (_, waker) in woken {
            let _ = waker.send(());
        }
        count
    }

    /// Makes blocked callers try again.
    pub(crate) fn unblock(&self) {
        let blocked = std::mem::take(&mut self.progress().blocked);
        for waker in blocked {
            let _ = waker.send(());
        }
    }

    /// Waits for the next [`Self::unblock`]. Called with the state locked, so that none is missed.
    pub(crate) fn block(&self) -> oneshot::Receiver<()> {
        let (waker, unblocked) = oneshot::channel();
        let mut progress = self.progress();
        // After a failure no `unblock` follows: dropping the sender wakes the caller at once.
        if progress.failure.is_none() {
            progress.blocked.push(waker);
        }
        unblocked
    }

    /// Stops the store. Calls that have not returned have an unknown outcome.
    pub(crate) fn fail(&self, why: &str) {
        let mut progress = self.progress();
        progress.failure.get_or_insert_with(|| why.to_owned());
        // Dropping the senders wakes all waiting callers.
        let (waiting, blocked) =
            (std::mem::take(&mut progress.waiting), std::mem::take(&mut progress.blocked));
        drop(progress);
        drop((waiting, blocked));
        self.work.notify_all();
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.progress().failure.as_ref().map(|why| Error::new(ErrorKind::Unavailable, why.clone()))
    }

    /// Waits until everything that a call wrote and read has reached its goal.
    pub(crate) async fn wait(&self, goal: Goal) -> Result<(), Error> {
        let reached = {
            let mut progress = self.progress();
            if progress.has_reached(goal) {
                return Ok(());
            }
            let (waker, reached) = oneshot::channel();
            // After a failure no `advance` follows: dropping the sender wakes the caller at once.
            if progress.failure.is_none() {
                progress.waiting.push((goal, waker));
            }
            reached
        };
        if reached.await.is_ok() {
            return Ok(());
        }
        Err(self
            .failure()
            .unwrap_or_else(|| Error::new(ErrorKind::Closed, "the store is closed: open it again")))
    }
}

/// The groups that must be written and durable before a call returns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) written: u64,
    pub(crate) durable: u64,
    /// Whether the call wrote to the journal; false for reads.
    pub(crate) wrote: bool,
}

impl State {
    /// Whether the current group should wait for more calls.
    pub(crate) fn wants_more_calls(&self) -> bool {
        let small = self.engine.group.bytes.0.len() < DELAY_BYTES_MAX;
        self.calls < self.calls_wanted && small && !self.poll_allocator
    }

    /// Takes the current group, and starts the next one.
    pub(crate) fn take_group(&mut self, spare: Group) -> (u64, Group) {
        let number = self.group_number;
        self.group_number += 1;
        self.calls = 0;
        self.engine.group.time = self.engine.clock.now();
        (number, std::mem::replace(&mut self.engine.group, spare))
    }
}
