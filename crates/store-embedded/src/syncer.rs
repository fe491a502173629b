//! The syncer thread: writes groups and makes them durable. While a store is open, no other thread uses its journal.
//!
//! The thread repeats these states in this order:
//!
//! | state | what it does | until |
//! |---|---|---|
//! | idle | sleeps | a call has written; a caller lacks space; the allocator has finished a task; a sync, a heartbeat or the next request to a failing disk is due; there is a segment to reclaim; a retired segment needs a frame; the store closes or has failed |
//! | gathering (`State::is_gathering`) | sleeps, if a caller waits for the sync of the group | the group has the expected calls, is large, or has waited long enough; the allocator has finished a task; the store closes |
//! | taking | under the lock of the state: adds finished segments, rewrites a slice of the oldest segment, and takes the group | at once |
//! | writing | appends the group; without effects, a frame only if a heartbeat is due or a retired segment needs it | the operating system has the frame; this answers the callers that wait for no sync |
//! | syncing | syncs, if a caller waits for it, frames have been unsynced for too long, or a full disk gets space back by it | the frame is on disk; this answers all callers of the group |
//! | supplying | gives the allocator its next tasks | at once |
//!
//! Two events end it. *Closing*: after the current group, it writes and syncs one more with the close mark. *Failure*:
//! when a write or a sync fails, the directory is not the one that was opened, or the thread panics, all calls get an
//! error, and nothing is written any more.
//!
//! Each decision has a type of its own, which knows neither threads nor files: [`CommitDelay`] how long to gather,
//! [`SyncSchedule`] what is due, [`SegmentSupply`] which segments to prepare, [`Space`] which calls fit. [`Reclaimer`]
//! decides which segment is rewritten; it works on the journal and on the engine.
//!
//! [`CommitDelay`]: crate::commit_delay::CommitDelay
//! [`Space`]: crate::space::Space

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, MutexGuard};

use oncebox_system::uptime;

use crate::allocator::{AllocatorTask, PreparedSegment};
use crate::disk::Disk;
use crate::disk_error::{DISK_RETRY, DiskError, log_disk_error};
use crate::engine::Group;
use crate::journal::Journal;
use crate::reclaim::Reclaimer;
use crate::segment_supply::{Reuse, SegmentSupply};
use crate::shared::{GROUP_BYTES_MAX, Lifecycle, Shared, State};
use crate::sync_schedule::SyncSchedule;

/// Stops the store if the syncer thread panics, so that no caller waits for it.
struct PanicGuard(Arc<Shared>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail(
                "internal error: broken invariant in the syncer, the outcome of pending calls is unknown: reopen the store",
            );
        }
    }
}

pub(crate) struct Syncer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) journal: Journal,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tasks: Sender<AllocatorTask>,
    pub(crate) prepared: Receiver<PreparedSegment>,
    pub(crate) schedule: SyncSchedule,
    pub(crate) supply: SegmentSupply,
    pub(crate) reclaimer: Reclaimer,
    /// An empty group whose buffers are used again. With new buffers for each group, callers in batches of 100 run a tenth
    /// fewer lifecycles.
    pub(crate) spare: Group,
}

/// A group taken for writing, and what the state said then.
struct Taken {
    number: u64,
    group: Group,
    sync_target: u64,
    space_wanted: u64,
    /// The group of the close mark comes next.
    closing: bool,
}

impl Syncer {
    /// Runs until the store is closed or fails.
    pub(crate) fn run(mut self) {
        let _guard = PanicGuard(Arc::clone(&self.shared));
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let why = format!(
                        "writing the journal failed ({error}), the outcome of pending calls is unknown: reopen the store"
                    );
                    self.shared.fail(&why);
                    return;
                }
            }
        }
    }

    /// Goes through all states once. Returns whether to continue.
    fn step(&mut self) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let state = self.sleep(&shared);
        let state = self.gather(&shared, state);
        if shared.failure().is_some() {
            return Ok(false);
        }
        let Taken { number, mut group, sync_target, space_wanted, closing } = self.take(&shared, state);
        self.write(&group)?;
        self.publish(number, sync_target)?;
        self.request_segments(space_wanted);
        group.clear();
        self.spare = group;
        if closing {
            return self.close(number).map(|()| false);
        }
        Ok(true)
    }

    /// Idle: waits until there is something to do.
    fn sleep<'a>(&self, shared: &'a Shared) -> MutexGuard<'a, State> {
        let state = shared.lock();
        if self.journal.needs_group() {
            return state;
        }
        let limit = self.schedule.sleep_max(uptime());
        let limit = if self.supply.has_failed() { limit.min(DISK_RETRY) } else { limit };
        let space = self.journal.space_besides(0);
        let is_idle = |state: &State| {
            state.engine.group.is_empty()
                && !state.poll_allocator
                // A caller may wait for space that did not count yet, because a group was still to be written.
                && !state.space.is_wanted_within(space)
                && state.lifecycle == Lifecycle::Open
                && self.reclaimer.is_idle(state, &self.journal)
                && shared.failure().is_none()
        };
        shared.wait_for_work(state, limit, is_idle)
    }

    /// Gathering: waits for more calls to join the group.
    fn gather<'a>(&self, shared: &'a Shared, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        // A sync that no caller waits for is not worth a delay.
        let limit = state.commit_delay.limit();
        if limit.is_zero() || self.schedule.answers_unsynced() || state.sync_target <= shared.durable() {
            return state;
        }
        let is_incomplete = |state: &State| state.wants_more_calls() && state.lifecycle == Lifecycle::Open;
        state.is_gathering = true;
        let mut state = shared.wait_for_work(state, limit, is_incomplete);
        state.is_gathering = false;
        state
    }

    /// Taking: adds what is ready to the journal and to the group, and takes the group.
    fn take(&mut self, shared: &Shared, mut state: MutexGuard<'_, State>) -> Taken {
        self.collect_segments(&mut state);
        let reclaim_pending = self.reclaimer.reclaim(&mut state, &mut self.journal, self.supply.wiping());
        let was_full = state.engine.group.bytes.0.len() >= GROUP_BYTES_MAX;
        let unblock = state.space.set_reclaim_pending(reclaim_pending) || was_full;
        let closing = matches!(state.lifecycle, Lifecycle::Closing { .. });
        let (sync_target, space_wanted) = (state.sync_target, state.space.wanted());
        let (number, group) = state.take_group(std::mem::take(&mut self.spare));
        drop(state);
        if unblock {
            shared.unblock();
        }
        Taken { number, group, sync_target, space_wanted, closing }
    }

    /// Adds the segments that the allocator has finished, and publishes how much space there is.
    fn collect_segments(&mut self, state: &mut State) {
        while let Ok(PreparedSegment { origin, segment }) = self.prepared.try_recv() {
            match segment {
                Ok(segment) => {
                    self.journal.free.push_back(segment);
                    if self.supply.ready(origin, self.journal.free.len()) {
                        self.set_disk_error(state, None);
                    }
                }
                Err(error) => {
                    self.supply.failed(origin, uptime());
                    self.set_disk_error(state, Some(DiskError::from_io(&error)));
                }
            }
        }
        if state.space.wanted() == 0 && self.supply.recover_unneeded(self.journal.free.len(), uptime()) {
            self.set_disk_error(state, None);
        }
        let space = self.journal.space_besides(state.engine.group.bytes.0.len());
        state.poll_allocator = false;
        if state.space.refresh(space, self.journal.bytes()) {
            self.shared.unblock();
        }
    }

    /// Records whether the journal can grow; logs each change once.
    fn set_disk_error(&self, state: &mut State, disk_error: Option<DiskError>) {
        if state.space.set_disk_error(disk_error) {
            log_disk_error(&self.shared.name, state.space.disk_error());
        }
    }

    /// Writing: appends the group, or a frame without effects if one is due.
    fn write(&mut self, group: &Group) -> io::Result<()> {
        if self.reclaimer.take_finished() {
            self.journal.retire_oldest();
        }
        let time_is_due = group.has_timer_effects || self.schedule.is_heartbeat_due(uptime());
        // A frame that only records the time must not use the space that the next open needs.
        let records_time = time_is_due && self.journal.space() > 0;
        if !group.bytes.0.is_empty() || self.journal.needs_group() || records_time {
            self.journal.append(&group.bytes.0, &group.bases, group.time)?;
            self.schedule.appended(uptime());
        }
        Ok(())
    }

    /// Syncing: syncs if a caller waits for it or it is due, and answers callers.
    fn publish(&mut self, number: u64, sync_target: u64) -> io::Result<()> {
        let unsynced = self.schedule.is_unsynced();
        let durable_before = self.shared.durable();
        if unsynced {
            self.check_directory()?;
        }
        let answers_all = self.schedule.answers_unsynced() || !unsynced;
        let durable = if answers_all { number } else { durable_before };
        self.shared.advance(number, durable).wake();
        let is_awaited = !answers_all && sync_target > durable_before;
        // A retired file can be wiped only after a sync, and callers may wait for its space.
        let frees_space = self.supply.has_failed() && !self.journal.retired.is_empty();
        let start = uptime();
        if unsynced && (is_awaited || frees_space || self.schedule.is_sync_due(start)) {
            self.journal.sync()?;
            self.check_directory()?;
            self.schedule.synced();
            // Before the lock: waiting for it is not part of the sync.
            let end = uptime();
            let answered = self.shared.advance(number, number);
            self.shared.lock().commit_delay.synced(start, end, answered.writers());
            answered.wake();
        }
        Ok(())
    }

    /// Fails if the directory or the current segment was deleted or replaced: writes to it must not be confirmed to
    /// callers.
    fn check_directory(&self) -> io::Result<()> {
        self.journal.live.back().map_or(Ok(()), |segment| self.disk.check(&segment.name))
    }

    /// Supplying: hands the files that the journal does not need to the allocator, and requests free segments.
    fn request_segments(&mut self, space_wanted: u64) {
        for file in self.journal.filled.drain(..) {
            let _ = self.tasks.send(AllocatorTask::ReleaseCache(file));
        }
        for segment in self.journal.take_wipeable() {
            let task = match self.supply.reuse(segment.size, self.journal.free.len()) {
                Reuse::Wipe => AllocatorTask::Wipe(segment),
                Reuse::Remove => AllocatorTask::Remove(segment),
            };
            let _ = self.tasks.send(task);
        }
        let (free, space) = (self.journal.free.len(), self.journal.space_besides(0));
        for _ in 0..self.supply.create(free, space, space_wanted, uptime()) {
            let _ = self.tasks.send(AllocatorTask::Create);
        }
    }

    /// Writes the close mark: everything before it is durable.
    fn close(&mut self, number: u64) -> io::Result<()> {
        let mut state = self.shared.lock();
        state.engine.note_close();
        let (mark, group) = state.take_group(Group::default());
        state.lifecycle = Lifecycle::Closed { mark };
        drop(state);
        debug_assert_eq!(mark, number + 1, "callers of `close` wait for this group");
        self.shared.unblock();
        self.journal.append(&group.bytes.0, &group.bases, group.time)?;
        self.journal.sync()?;
        self.shared.advance(mark, mark).wake();
        Ok(())
    }
}
