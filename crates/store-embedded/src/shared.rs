//! What the callers and the syncer share: the engine under a lock, and how far the journal is.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use oncebox_core::{Error, Kind};
use tokio::sync::oneshot;

use crate::engine::{Engine, Group};
use crate::gathering::Comeback;
use crate::journal::Journal;
use crate::trouble::Trouble;

/// Bytes of a group after which callers wait for it to be written.
pub(crate) const GROUP_BYTES_MAX: usize = 4 << 20;

/// A group of so many bytes does not wait for more calls: its own write takes longer than a sync saves.
const GATHER_BYTES_MAX: usize = 32 << 10;

/// How far the groups have come, and who waits for that; groups are counted from one.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    /// Handed to the operating system.
    pub(crate) written: u64,
    /// On disk.
    pub(crate) durable: u64,
    /// Why nothing goes on any more.
    failure: Option<String>,
    /// Each is woken once, when its goal is reached or never will be: a wake-up for nothing costs as much as the call.
    waiting: Vec<(Goal, oneshot::Sender<()>)>,
    /// Callers that could not even begin.
    blocked: Vec<oneshot::Sender<()>>,
}

impl Progress {
    fn has_reached(&self, goal: Goal) -> bool {
        self.written >= goal.written && self.durable >= goal.durable
    }
}

pub(crate) struct State {
    /// Tells the store from others in the log.
    pub(crate) name: Arc<str>,
    pub(crate) engine: Engine,
    /// The number of the group that is being filled.
    pub(crate) group_number: u64,
    /// The newest group that callers wait for to be on disk.
    pub(crate) solid: u64,
    /// Bytes that may still be added to groups.
    pub(crate) room: u64,
    /// Room that somebody waits for.
    pub(crate) room_wanted: u64,
    /// The preparer has finished something, or should try again.
    pub(crate) prepared: bool,
    /// Why the journal cannot grow; none if it can.
    pub(crate) trouble: Option<Trouble>,
    /// Space is about to come from files that the journal has.
    pub(crate) relief: bool,
    /// Bytes of the journal's files.
    pub(crate) disk_bytes: u64,
    /// The syncer sleeps until it is called.
    pub(crate) syncer_sleeps: bool,
    /// Calls that wrote into the group that is being filled.
    pub(crate) calls: usize,
    pub(crate) comeback: Comeback,
    /// The syncer is not to be called before so many did.
    pub(crate) calls_wanted: usize,
    pub(crate) life: Life,
    /// The group with the mark that the store is closed, once somebody closes it.
    pub(crate) last_group: u64,
}

/// How far a store is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Open,
    /// Nothing more is taken in; what is there is written.
    Closing,
    Closed,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Rung when there is something to write.
    pub(crate) work: Condvar,
    progress: Mutex<Progress>,
}

impl Shared {
    pub(crate) fn new(name: Arc<str>, engine: Engine, journal: &Journal, trouble: Option<Trouble>) -> Self {
        let state = State {
            name,
            engine,
            group_number: 1,
            solid: 0,
            room: journal.room(),
            room_wanted: 0,
            prepared: false,
            trouble,
            relief: false,
            disk_bytes: journal.bytes(),
            syncer_sleeps: false,
            calls: 0,
            comeback: Comeback::default(),
            calls_wanted: 0,
            life: Life::Open,
            last_group: 0,
        };
        Self { state: Mutex::new(state), work: Condvar::new(), progress: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside the machine is a broken invariant. What it left behind must not be served or written.
        self.state.lock().unwrap_or_else(|poisoned| {
            self.fail("the store met a broken invariant: open it again");
            PoisonError::into_inner(poisoned)
        })
    }

    /// Calls the syncer if it sleeps; calling it costs a system call even if it does not.
    pub(crate) fn call_syncer(&self, state: &mut State) {
        if state.syncer_sleeps && !state.wants_more() {
            state.syncer_sleeps = false;
            self.work.notify_all();
        }
    }

    /// How far the groups have come. Whoever has the state locked may ask, but not the other way round.
    fn progress(&self) -> MutexGuard<'_, Progress> {
        // Nothing here can panic halfway: what is found is whole.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.progress().durable
    }

    /// Notes how far the groups have come, and wakes those who waited for that. Answers how many of them had written.
    pub(crate) fn advance(&self, written: u64, durable: u64) -> usize {
        let mut progress = self.progress();
        (progress.written, progress.durable) = (written, durable);
        let reached = |(goal, _): &mut (Goal, _)| written >= goal.written && durable >= goal.durable;
        let woken: Vec<_> = progress.waiting.extract_if(.., reached).collect();
        drop(progress);
        let count = woken.iter().filter(|(goal, _)| goal.wrote).count();
        for (_, told) in woken {
            let _ = told.send(());
        }
        count
    }

    /// Has callers that could not begin try again.
    pub(crate) fn unblock(&self) {
        let blocked = std::mem::take(&mut self.progress().blocked);
        for told in blocked {
            let _ = told.send(());
        }
    }

    /// Waits for the next [`Self::unblock`]. Called with the state locked, so that none is missed.
    pub(crate) fn block(&self) -> oneshot::Receiver<()> {
        let (told, unblocked) = oneshot::channel();
        let mut progress = self.progress();
        // After a failure nobody unblocks any more: dropping the sender wakes at once.
        if progress.failure.is_none() {
            progress.blocked.push(told);
        }
        unblocked
    }

    /// Ends all service. What was not answered has an unknown outcome.
    pub(crate) fn fail(&self, why: &str) {
        let mut progress = self.progress();
        progress.failure.get_or_insert_with(|| why.to_owned());
        // Dropping the senders wakes those who wait.
        let (waiting, blocked) =
            (std::mem::take(&mut progress.waiting), std::mem::take(&mut progress.blocked));
        drop(progress);
        drop((waiting, blocked));
        self.work.notify_all();
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.progress().failure.as_ref().map(|why| Error::new(Kind::Unavailable, why.clone()))
    }

    /// Waits until what a caller did and saw is where it has to be.
    pub(crate) async fn wait(&self, goal: Goal) -> Result<(), Error> {
        let reached = {
            let mut progress = self.progress();
            if progress.has_reached(goal) {
                return Ok(());
            }
            let (told, reached) = oneshot::channel();
            // After a failure nobody tells any more: dropping the sender wakes at once.
            if progress.failure.is_none() {
                progress.waiting.push((goal, told));
            }
            reached
        };
        if reached.await.is_ok() {
            return Ok(());
        }
        Err(self.failure().unwrap_or_else(|| Error::new(Kind::Closed, "the store is closed: open it again")))
    }
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) written: u64,
    pub(crate) durable: u64,
    /// It has something in the journal, and is not only a reader.
    pub(crate) wrote: bool,
}

impl State {
    /// Whether the group that is being filled should wait for more calls.
    pub(crate) fn wants_more(&self) -> bool {
        let small = self.engine.group.bytes.0.len() < GATHER_BYTES_MAX;
        self.calls < self.calls_wanted && small && !self.prepared
    }

    /// Takes the group that was being filled, and begins the next one.
    pub(crate) fn take_group(&mut self, spare: Group) -> (u64, Group) {
        let number = self.group_number;
        self.group_number += 1;
        self.calls = 0;
        self.engine.group.time = self.engine.clock.now();
        (number, std::mem::replace(&mut self.engine.group, spare))
    }
}
