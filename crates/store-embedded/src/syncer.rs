//! The syncer thread: writes groups and makes them durable.

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_system::uptime;

use crate::allocator::{AllocatorOutcome, AllocatorTask};
use crate::commit_delay::CommitDelay;
use crate::disk::Disk;
use crate::disk_error::{DISK_RETRY, DiskError, log_disk_error};
use crate::engine::Group;
use crate::frame::HEADER_BYTES;
use crate::journal::Journal;
use crate::options::Durability;
use crate::reclaim::Reclaimer;
use crate::shared::{GROUP_BYTES_MAX, Lifecycle, Shared, State};

/// Leases are synced after at most this long.
const LEASE_SYNC_INTERVAL: Duration = Duration::from_millis(50);
/// The store time is recorded at least this often.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// Number of free segments to keep.
pub(crate) const FREE_SEGMENTS: usize = 2;
/// Bytes of a segment that hold no frames (upper bound).
const SEGMENT_OVERHEAD_BYTES: u64 = 512;

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
    pub(crate) journal: Journal,
    pub(crate) shared: Arc<Shared>,
    pub(crate) durability: Durability,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tasks: Sender<AllocatorTask>,
    pub(crate) done: Receiver<AllocatorOutcome>,
    /// Segments that are being created or wiped.
    pub(crate) allocating: usize,
    /// How many of `allocating` are being wiped.
    pub(crate) wiping: usize,
    pub(crate) reclaimer: Reclaimer,
    pub(crate) segment_bytes: u64,
    pub(crate) spare: Group,
    /// When creating or wiping a segment last failed, on the monotonic clock; none once it has succeeded again.
    pub(crate) disk_error_at: Option<Duration>,
    /// When the last frame was appended, on the monotonic clock.
    pub(crate) appended_at: Duration,
    /// When the oldest unsynced frame was written, on the monotonic clock.
    pub(crate) unsynced_since: Option<Duration>,
    pub(crate) commit_delay: CommitDelay,
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

    /// Waits for work and does it. Returns whether to continue.
    fn step(&mut self) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let state = self.wait(&shared);
        let mut state = self.delay_commit(&shared, state);
        if shared.failure().is_some() {
            return Ok(false);
        }
        self.collect_segments(&mut state);
        self.reclaim(&mut state);
        let closing = state.lifecycle == Lifecycle::Closing;
        let (sync_target, wanted) = (state.sync_target, state.space_wanted);
        let was_full = state.engine.group.bytes.0.len() >= GROUP_BYTES_MAX;
        let (number, mut group) = state.take_group(std::mem::take(&mut self.spare));
        drop(state);
        if was_full {
            self.shared.unblock();
        }

        if self.reclaimer.take_finished() {
            self.journal.retire_oldest();
        }
        let idle_for = uptime().saturating_sub(self.appended_at);
        // A frame that only records the time must not use the space that the next open needs.
        let records_time = (group.has_timer_effects || idle_for >= HEARTBEAT) && self.journal.space() > 0;
        if !group.bytes.0.is_empty() || self.journal.needs_group() || records_time {
            self.journal.append(&group.bytes.0, &group.bases, group.time)?;
            self.appended_at = uptime();
        }
        self.publish(number, sync_target)?;
        self.schedule_allocations(wanted);
        group.clear();
        self.spare = group;
        if closing {
            return self.close(number).map(|()| false);
        }
        Ok(true)
    }

    /// How long frames may stay unsynced while no caller waits for them.
    fn sync_interval(&self) -> Duration {
        match self.durability {
            Durability::Sync => LEASE_SYNC_INTERVAL,
            Durability::Interval(interval) => interval,
            Durability::Os => Duration::MAX,
        }
    }

    /// Waits until there is a group to write, the allocator has finished a task, or a sync or heartbeat is due.
    fn wait<'a>(&self, shared: &'a Shared) -> MutexGuard<'a, State> {
        let state = shared.lock();
        if self.journal.needs_group() {
            return state;
        }
        let unsynced = self.journal.durable_lsn < self.journal.written_lsn();
        let unsynced_for = self.unsynced_since.map_or(Duration::ZERO, |since| uptime().saturating_sub(since));
        let sync_due_in = self.sync_interval().saturating_sub(unsynced_for);
        let limit = if unsynced { sync_due_in.min(HEARTBEAT) } else { HEARTBEAT };
        let limit = if self.disk_error_at.is_some() { limit.min(DISK_RETRY) } else { limit };
        let space = self.space_after(0);
        // A caller may wait for space that `state.space` did not include yet, because a group was still to be written.
        let is_space_awaited = |state: &State| (1..=space).contains(&state.space_wanted);
        let idle = |state: &mut State| {
            state.syncer_sleeps = state.engine.group.is_empty()
                && !state.poll_allocator
                && !is_space_awaited(state)
                && state.lifecycle == Lifecycle::Open
                && self.reclaimer.is_idle(state, &self.journal)
                && shared.failure().is_none();
            state.syncer_sleeps
        };
        let waited = shared.work.wait_timeout_while(state, limit, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.syncer_sleeps = false;
        state
    }

    /// Waits for more calls to join the group, as [`CommitDelay::target`] says.
    fn delay_commit<'a>(
        &self,
        shared: &'a Shared,
        mut state: MutexGuard<'a, State>,
    ) -> MutexGuard<'a, State> {
        let (calls_wanted, limit) = self.commit_delay.target();
        // A sync that no caller waits for is not worth a delay.
        let waited_for = self.durability == Durability::Sync && state.sync_target > shared.durable();
        if state.calls == 0 || !waited_for {
            return state;
        }
        state.calls_wanted = calls_wanted;
        let more = |state: &mut State| {
            state.syncer_sleeps = state.wants_more_calls() && state.lifecycle == Lifecycle::Open;
            state.syncer_sleeps
        };
        let waited = shared.work.wait_timeout_while(state, limit, more);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.syncer_sleeps = false;
        state.calls_wanted = 0;
        state
    }

    /// Bytes that callers may use besides `pending` bytes of a group that is not written yet. Admission and allocation
    /// must use the same number: if they differed, callers could wait for space that is never allocated.
    fn space_after(&self, pending: u64) -> u64 {
        self.journal.space().saturating_sub(pending + pending / 64 + HEADER_BYTES as u64)
    }

    /// Adds the segments that the allocator has finished, and publishes the free space to callers.
    fn collect_segments(&mut self, state: &mut State) {
        let before = state.space;
        while let Ok(outcome) = self.done.try_recv() {
            self.add_segment(state, outcome);
        }
        state.space = self.space_after(state.engine.group.bytes.0.len() as u64);
        state.disk_bytes = self.journal.bytes();
        state.poll_allocator = false;
        if state.space >= state.space_wanted {
            state.space_wanted = 0;
        }
        if state.space > before || state.disk_error.is_some() {
            self.shared.unblock();
        }
    }

    /// Adds one segment to the journal, or records why there is none.
    fn add_segment(&mut self, state: &mut State, outcome: AllocatorOutcome) {
        self.allocating -= 1;
        let created = matches!(outcome, AllocatorOutcome::Created(_));
        self.wiping -= usize::from(!created);
        match outcome {
            AllocatorOutcome::Created(Ok(segment)) | AllocatorOutcome::Wiped(Ok(segment)) => {
                self.journal.free.push_back(segment);
                // The disk may still be full although an existing file was wiped.
                if created || self.journal.free.len() >= FREE_SEGMENTS {
                    self.disk_error_at = None;
                    Self::set_disk_error(state, None);
                }
            }
            AllocatorOutcome::Created(Err(error)) | AllocatorOutcome::Wiped(Err(error)) => {
                self.disk_error_at = Some(uptime());
                Self::set_disk_error(state, Some(DiskError::from_io(&error)));
            }
        }
    }

    /// Records whether the journal can grow; logs each change once.
    fn set_disk_error(state: &mut State, disk_error: Option<DiskError>) {
        if state.disk_error != disk_error {
            log_disk_error(&state.name, disk_error.as_ref());
            state.disk_error = disk_error;
        }
    }

    /// Reclaims the oldest segment if it should be, and publishes whether space is pending.
    fn reclaim(&mut self, state: &mut State) {
        let space_pending = self.reclaimer.reclaim(state, &mut self.journal, self.wiping);
        if std::mem::replace(&mut state.space_pending, space_pending) && !space_pending {
            self.shared.unblock();
        }
    }

    /// Syncs if a caller waits for it or it is due, and advances the progress.
    fn publish(&mut self, number: u64, sync_target: u64) -> io::Result<()> {
        let unsynced = self.journal.durable_lsn < self.journal.written_lsn();
        let answer_when_written = self.durability != Durability::Sync;
        let durable_before = self.shared.durable();
        let waited_for = !answer_when_written && sync_target > durable_before;
        if unsynced && self.unsynced_since.is_none() {
            self.unsynced_since = Some(uptime());
        }
        // A retired file can be wiped only after a sync, and callers may wait for its space.
        let space_awaits_sync = self.disk_error_at.is_some() && !self.journal.retired.is_empty();
        let overdue = space_awaits_sync
            || self
                .unsynced_since
                .is_some_and(|since| uptime().saturating_sub(since) >= self.sync_interval());
        let durable = if answer_when_written || !unsynced { number } else { durable_before };
        if unsynced {
            self.check_directory()?;
        }
        self.shared.advance(number, durable);
        if unsynced && (waited_for || overdue) {
            let start = uptime();
            self.journal.sync()?;
            self.check_directory()?;
            self.unsynced_since = None;
            let end = uptime();
            let (calls, think_time) = {
                let state = self.shared.lock();
                (state.calls, state.think_time)
            };
            let answered = self.shared.advance(number, number);
            self.shared.lock().think_time.answered(think_time.calls, answered, end);
            self.commit_delay = CommitDelay {
                sync_duration: end.saturating_sub(start),
                calls_expected: calls + answered,
                think_time: think_time.measured(),
            };
        }
        Ok(())
    }

    /// Fails if the directory or the current segment was deleted or replaced: writes to it must not be confirmed to
    /// callers.
    fn check_directory(&self) -> io::Result<()> {
        self.journal.live.back().map_or(Ok(()), |segment| self.disk.check(&segment.name))
    }

    /// Hands retired files to the allocator, and requests new segments until there is enough free space.
    fn schedule_allocations(&mut self, space_wanted: u64) {
        for file in self.journal.filled.drain(..) {
            let _ = self.tasks.send(AllocatorTask::ReleaseCache(file));
        }
        for segment in self.journal.take_wipeable() {
            // After a disk error, segments being created do not count: they will probably fail.
            let allocating = if self.disk_error_at.is_some() { self.wiping } else { self.allocating };
            let enough = self.journal.free.len() + allocating >= FREE_SEGMENTS;
            let wrong_size = segment.size != self.segment_bytes;
            if enough || wrong_size {
                let _ = self.tasks.send(AllocatorTask::Remove(segment));
            } else {
                self.allocating += 1;
                self.wiping += 1;
                let _ = self.tasks.send(AllocatorTask::Wipe(segment));
            }
        }
        // After a disk error, wait before asking the disk again.
        if self.disk_error_at.is_some_and(|at| uptime().saturating_sub(at) < DISK_RETRY) {
            return;
        }
        let allocating_bytes =
            |allocating: usize| allocating as u64 * (self.segment_bytes - SEGMENT_OVERHEAD_BYTES);
        let (free, space) = (self.journal.free.len(), self.space_after(0));
        let lacking = |allocating: usize| {
            free + allocating < FREE_SEGMENTS || space + allocating_bytes(allocating) < space_wanted
        };
        while lacking(self.allocating) {
            self.allocating += 1;
            let _ = self.tasks.send(AllocatorTask::Create);
        }
    }

    /// Writes the close mark: everything before it is durable.
    fn close(&mut self, number: u64) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.engine.note_close();
        let (_, group) = state.take_group(Group::default());
        state.lifecycle = Lifecycle::Closed;
        drop(state);
        self.shared.unblock();
        self.journal.append(&group.bytes.0, &group.bases, group.time)?;
        self.journal.sync()?;
        self.shared.advance(number + 1, number + 1);
        Ok(())
    }
}
