//! State shared by callers, syncer and allocator: the engine under a lock, and the progress of the journal.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Error, ErrorKind};
use tokio::sync::oneshot;

use crate::commit_delay::CommitDelay;
use crate::disk_error::DiskError;
use crate::engine::{Engine, Group};
use crate::journal::Journal;
use crate::space::Space;

/// Size of a group at which further callers wait until it is written.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

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
    pub(crate) engine: Engine,
    /// The number of the current group.
    pub(crate) group_number: u64,
    /// The newest group that callers need synced.
    pub(crate) sync_target: u64,
    pub(crate) commit_delay: CommitDelay,
    pub(crate) space: Space,
    /// The allocator has finished a task, or a caller lacks space: the syncer must run.
    pub(crate) poll_allocator: bool,
    /// The syncer waits for as many calls in the current group as [`CommitDelay`] says.
    pub(crate) is_gathering: bool,
    /// The syncer sleeps until it is notified.
    is_sleeping: bool,
    pub(crate) lifecycle: Lifecycle,
}

/// Whether the store is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Open,
    /// No calls are accepted any more; the current group is being written, and after it the one with the close mark.
    Closing {
        mark: u64,
    },
    /// The close mark has been taken for writing.
    Closed {
        mark: u64,
    },
}

pub(crate) struct Shared {
    /// The store's name in log lines.
    pub(crate) name: Arc<str>,
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
            engine,
            group_number: 1,
            sync_target: 0,
            commit_delay: CommitDelay::default(),
            space: Space::new(journal.space(), journal.bytes(), disk_error),
            poll_allocator: false,
            is_gathering: false,
            is_sleeping: false,
            lifecycle: Lifecycle::Open,
        };
        Self { name, state: Mutex::new(state), work: Condvar::new(), progress: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside the machine is a broken invariant: its state must be neither served nor written.
        self.state.lock().unwrap_or_else(|poisoned| self.fail_poisoned(poisoned))
    }

    fn fail_poisoned<T>(&self, poisoned: PoisonError<T>) -> T {
        self.fail("internal error: broken invariant in the store: reopen the store");
        poisoned.into_inner()
    }

    /// Wakes the syncer if it sleeps, unless it waits for more calls than there are. Notifying costs a system call even
    /// if no thread waits: without the check, a server with 64 connections accepts 6 % fewer messages.
    pub(crate) fn wake_syncer(&self, state: &mut State) {
        if state.is_sleeping && !(state.is_gathering && state.wants_more_calls()) {
            state.is_sleeping = false;
            self.work.notify_all();
        }
    }

    /// The syncer sleeps while `sleeps` holds, for at most `limit`.
    pub(crate) fn wait_for_work<'a>(
        &self,
        state: MutexGuard<'a, State>,
        limit: Duration,
        sleeps: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        let waited = self.work.wait_timeout_while(state, limit, |state| {
            state.is_sleeping = sleeps(state);
            state.is_sleeping
        });
        let mut state = waited.unwrap_or_else(|poisoned| self.fail_poisoned(poisoned)).0;
        state.is_sleeping = false;
        state
    }

    /// Starts to close the store unless it is being closed already: no further call runs. Returns the group that
    /// contains the close mark.
    pub(crate) fn start_closing(&self) -> u64 {
        let mut state = self.lock();
        match state.lifecycle {
            Lifecycle::Closing { mark } | Lifecycle::Closed { mark } => mark,
            Lifecycle::Open => {
                // The current group comes first.
                let mark = state.group_number + 1;
                state.lifecycle = Lifecycle::Closing { mark };
                self.work.notify_all();
                mark
            }
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

    /// Records which groups are written and durable. Returns the callers whose goal is reached, to be woken.
    pub(crate) fn advance(&self, written: u64, durable: u64) -> Answered {
        let mut progress = self.progress();
        (progress.written, progress.durable) = (written, durable);
        let reached = |(goal, _): &mut (Goal, _)| written >= goal.written && durable >= goal.durable;
        Answered(progress.waiting.extract_if(.., reached).collect())
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

/// Callers whose goal is reached.
#[must_use]
pub(crate) struct Answered(Vec<(Goal, oneshot::Sender<()>)>);

impl Answered {
    /// How many of them have written something.
    pub(crate) fn writers(&self) -> usize {
        self.0.iter().filter(|(goal, _)| goal.wrote).count()
    }

    pub(crate) fn wake(self) {
        for (_, waker) in self.0 {
            let _ = waker.send(());
        }
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
        self.commit_delay.wants_more(self.engine.group.bytes.0.len()) && !self.poll_allocator
    }

    /// Takes the current group, and starts the next one.
    pub(crate) fn take_group(&mut self, spare: Group) -> (u64, Group) {
        let number = self.group_number;
        self.group_number += 1;
        self.commit_delay.group_taken();
        self.engine.group.time = self.engine.clock.now();
        (number, std::mem::replace(&mut self.engine.group, spare))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::time::Duration;

    use oncebox_core::machine::Capacity;
    use oncebox_core::{Fence, Timestamp};
    use oncebox_system::SystemRng;
    use oncebox_testkit::ManualClock;

    use super::Shared;
    use crate::engine::{Engine, Opening, Recovering};
    use crate::journal::Journal;

    fn shared() -> Shared {
        let opening = Opening {
            epoch: 1,
            fence_floor: Fence::new(1).unwrap(),
            recorded: Timestamp::EPOCH,
            boot_id: String::new(),
        };
        let recovering = Recovering::new(Capacity::default());
        let clock = Arc::new(ManualClock::default());
        let engine = Engine::new(recovering, opening, clock, Box::new(SystemRng::default()));
        Shared::new("store".into(), engine, &Journal::new([1; 16], 1, 1, 1), None)
    }

    /// What a call has left halfway must not be written, although the syncer sleeps while the call panics.
    #[test]
    fn a_call_that_panics_while_the_syncer_sleeps_stops_the_store() {
        let (shared, asleep) = (shared(), Barrier::new(2));
        std::thread::scope(|scope| {
            let syncer =
                scope.spawn(|| {
                    let state = shared.lock();
                    asleep.wait();
                    let in_group = state.group_number;
                    drop(shared.wait_for_work(state, Duration::from_secs(60), |state| {
                        state.group_number == in_group
                    }));
                    shared.failure()
                });
            let caller = scope.spawn(|| {
                asleep.wait();
                // The syncer has the lock until it sleeps.
                let mut state = shared.lock();
                state.group_number += 1;
                shared.wake_syncer(&mut state);
                panic!("in the middle of a call");
            });
            assert!(caller.join().is_err());
            assert!(
                syncer
                    .join()
                    .unwrap()
                    .is_some_and(|failure| failure.to_string().contains("broken invariant"))
            );
        });
    }
}
