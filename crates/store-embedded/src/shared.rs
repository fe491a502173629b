//! What the callers and the syncer share: the engine under a lock, and how far the journal is.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use oncebox_core::{Error, Kind};
use tokio::sync::watch;

use crate::engine::{Engine, Group};

/// How far the groups have come; groups are counted from one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// Handed to the operating system.
    pub(crate) written: u64,
    /// On disk.
    pub(crate) durable: u64,
    /// Why nothing goes on any more.
    pub(crate) failure: Option<String>,
    /// Raised whenever there may be more room.
    pub(crate) room_changes: u64,
}

pub(crate) struct State {
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
    /// The disk refused to give room the last time.
    pub(crate) disk_full: bool,
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
    pub(crate) progress: watch::Sender<Progress>,
}

impl Shared {
    pub(crate) fn new(engine: Engine, room: u64) -> Self {
        let state = State {
            engine,
            group_number: 1,
            solid: 1,
            room,
            room_wanted: 0,
            prepared: false,
            disk_full: false,
            life: Life::Open,
            last_group: 0,
        };
        Self {
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: watch::Sender::new(Progress::default()),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        // A panic inside the machine is a broken invariant. What it left behind must not be served or written.
        self.state.lock().unwrap_or_else(|poisoned| {
            self.fail("the store met a broken invariant: open it again");
            PoisonError::into_inner(poisoned)
        })
    }

    /// Ends all service. What was not answered has an unknown outcome.
    pub(crate) fn fail(&self, why: &str) {
        self.progress.send_modify(|progress| {
            progress.failure.get_or_insert_with(|| why.to_owned());
        });
        self.work.notify_all();
    }

    pub(crate) fn failure(&self) -> Option<Error> {
        self.progress.borrow().failure.as_ref().map(|why| Error::new(Kind::Unavailable, why.clone()))
    }

    /// Waits until what a caller did and saw is where it has to be.
    pub(crate) async fn wait(&self, goal: Goal) -> Result<(), Error> {
        let mut progress = self.progress.subscribe();
        let reached = |progress: &Progress| {
            progress.failure.is_some()
                || (progress.written >= goal.written && progress.durable >= goal.durable)
        };
        let reached = progress.wait_for(reached).await;
        let reached = reached.map_err(|_| Error::new(Kind::Closed, "the store is closed: open it again"))?;
        if reached.written >= goal.written && reached.durable >= goal.durable {
            return Ok(());
        }
        let why = reached.failure.clone().unwrap_or_default();
        Err(Error::new(Kind::Unavailable, why))
    }
}

/// What a caller waits for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) written: u64,
    pub(crate) durable: u64,
}

impl State {
    /// Takes the group that was being filled, and begins the next one.
    pub(crate) fn take_group(&mut self, spare: Group) -> (u64, Group) {
        let number = self.group_number;
        self.group_number += 1;
        self.engine.group.time = self.engine.clock.now();
        (number, std::mem::replace(&mut self.engine.group, spare))
    }
}
