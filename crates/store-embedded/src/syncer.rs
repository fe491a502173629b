//! The thread that writes groups and makes them durable.

use std::io;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::Uid;
use oncebox_system::uptime;

use crate::disk::Disk;
use crate::engine::Group;
use crate::frame::HEADER_BYTES;
use crate::gathering::Gathering;
use crate::journal::Journal;
use crate::options::Durability;
use crate::preparer::{Chore, Prepared};
use crate::reclaim::Weighed;
use crate::shared::{GROUP_BYTES_MAX, Life, Shared, State};
use crate::trouble::{Trouble, log_trouble};

/// Leases are on disk after this long at most.
const LEASE_SYNC: Duration = Duration::from_millis(50);
/// The time is recorded at least this often.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// A disk that is full is asked again after this long.
pub(crate) const DISK_RETRY: Duration = Duration::from_secs(1);
/// Segments that are kept prepared.
pub(crate) const BLANKS: usize = 2;
/// Bytes of a segment that hold no frames, generously.
const SEGMENT_LOSS_BYTES: u64 = 512;

/// Ends all service if the syncer does not end as it should: nobody must wait for it then.
struct Watch(Arc<Shared>);

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.fail("the journal's thread met a broken invariant, what was not answered is unknown: open the store again");
        }
    }
}

pub(crate) struct Syncer {
    pub(crate) journal: Journal,
    pub(crate) shared: Arc<Shared>,
    pub(crate) durability: Durability,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) chores: Sender<Chore>,
    pub(crate) done: Receiver<Prepared>,
    /// Segments that are being made or wiped.
    pub(crate) coming: usize,
    /// Those of them that are being wiped.
    pub(crate) wiping: usize,
    /// Of the oldest segment: what is still to be written again.
    pub(crate) reclaiming: Option<Vec<Uid>>,
    pub(crate) segment_bytes: u64,
    pub(crate) spare: Group,
    /// Reclaiming waits for space.
    pub(crate) stalled: bool,
    /// When the oldest segment was last found to hold too much to be written again.
    pub(crate) weighed: Option<Weighed>,
    /// When the disk last refused a segment, on the monotonic clock; none if it has given one since.
    pub(crate) refused_at: Option<Duration>,
    /// When the last frame was appended, on the monotonic clock.
    pub(crate) appended_at: Duration,
    /// Since when frames wait for a sync, on the monotonic clock.
    pub(crate) unsynced_since: Option<Duration>,
    pub(crate) gathering: Gathering,
}

impl Syncer {
    /// Runs until the store is closed or fails.
    pub(crate) fn run(mut self) {
        let _watch = Watch(Arc::clone(&self.shared));
        loop {
            match self.step() {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    let why = format!(
                        "writing the journal failed, what was not answered is unknown, open the store again: {error}"
                    );
                    self.shared.fail(&why);
                    return;
                }
            }
        }
    }

    /// Waits for something to do, and does it. Answers whether to go on.
    fn step(&mut self) -> io::Result<bool> {
        let shared = Arc::clone(&self.shared);
        let state = self.wait(&shared);
        let mut state = self.gather(&shared, state);
        if shared.failure().is_some() {
            return Ok(false);
        }
        self.collect(&mut state);
        self.reclaim(&mut state);
        let closing = state.life == Life::Closing;
        let (solid, wanted) = (state.solid, state.room_wanted);
        let was_full = state.engine.group.bytes.0.len() >= GROUP_BYTES_MAX;
        let (number, mut group) = state.take_group(std::mem::take(&mut self.spare));
        drop(state);
        if was_full {
            self.shared.unblock();
        }

        if self.reclaiming.as_ref().is_some_and(Vec::is_empty) {
            self.reclaiming = None;
            self.journal.retire_oldest();
        }
        let idle_for = uptime().saturating_sub(self.appended_at);
        // A frame that only tells the time must not take the space that the next opening needs.
        let tells_time = (group.timed || idle_for >= HEARTBEAT) && self.journal.room() > 0;
        if !group.bytes.0.is_empty() || self.journal.wants_a_group() || tells_time {
            self.journal.append(&group.bytes.0, &group.homes, group.time)?;
            self.appended_at = uptime();
        }
        self.publish(number, solid)?;
        self.tidy(wanted);
        group.clear();
        self.spare = group;
        if closing {
            return self.close(number).map(|()| false);
        }
        Ok(true)
    }

    /// For how long frames may stay unsynced if nobody waits for them.
    fn patience(&self) -> Duration {
        match self.durability {
            Durability::Sync => LEASE_SYNC,
            Durability::Interval(interval) => interval,
            Durability::Os => Duration::MAX,
        }
    }

    /// Waits until there is a group to write, a segment came, or time asks for a sync or a sign of life.
    fn wait<'a>(&self, shared: &'a Shared) -> MutexGuard<'a, State> {
        let state = shared.lock();
        if self.journal.wants_a_group() {
            return state;
        }
        let unsynced = self.journal.durable_lsn < self.journal.written_lsn();
        let waiting_for = self.unsynced_since.map_or(Duration::ZERO, |since| uptime().saturating_sub(since));
        let patience = self.patience().saturating_sub(waiting_for);
        let limit = if unsynced { patience.min(HEARTBEAT) } else { HEARTBEAT };
        let limit = if self.refused_at.is_some() { limit.min(DISK_RETRY) } else { limit };
        let space = self.space_beside(0);
        // A caller may wait for space that it was not shown yet, because a group was still to be written.
        let is_awaited = |state: &State| (1..=space).contains(&state.room_wanted);
        let idle = |state: &mut State| {
            state.syncer_sleeps = state.engine.group.is_empty()
                && !state.prepared
                && !is_awaited(state)
                && state.life == Life::Open
                && self.reclaim_rests(state)
                && shared.failure().is_none();
            state.syncer_sleeps
        };
        let waited = shared.work.wait_timeout_while(state, limit, idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.syncer_sleeps = false;
        state
    }

    /// Waits a little for those who were just answered to come back with their next call, if that is worth it.
    fn gather<'a>(&self, shared: &'a Shared, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (wished, limit) = self.gathering.wish();
        // A sync that nobody waits for is not worth waiting for.
        let waited_for = self.durability == Durability::Sync && state.solid > shared.durable();
        if state.calls == 0 || !waited_for {
            return state;
        }
        state.calls_wanted = wished;
        let more = |state: &mut State| {
            state.syncer_sleeps = state.wants_more() && state.life == Life::Open;
            state.syncer_sleeps
        };
        let waited = shared.work.wait_timeout_while(state, limit, more);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.syncer_sleeps = false;
        state.calls_wanted = 0;
        state
    }

    /// Bytes that callers may use beside a group of so many bytes that is not written yet. The same for those who ask for space
    /// and for those who decide whether to make more: where they differ, callers wait for nothing.
    fn space_beside(&self, waiting: u64) -> u64 {
        self.journal.room().saturating_sub(waiting + waiting / 64 + HEADER_BYTES as u64)
    }

    /// Takes over the segments that the preparer has finished, and tells the callers how much room there is.
    fn collect(&mut self, state: &mut State) {
        let before = state.room;
        while let Ok(prepared) = self.done.try_recv() {
            self.take_over(state, prepared);
        }
        state.room = self.space_beside(state.engine.group.bytes.0.len() as u64);
        state.disk_bytes = self.journal.bytes();
        state.prepared = false;
        if state.room >= state.room_wanted {
            state.room_wanted = 0;
        }
        if state.room > before || state.trouble.is_some() {
            self.shared.unblock();
        }
    }

    /// Takes over one segment, or why there is none.
    fn take_over(&mut self, state: &mut State, prepared: Prepared) {
        self.coming -= 1;
        let made = matches!(prepared, Prepared::Made(_));
        self.wiping -= usize::from(!made);
        match prepared {
            Prepared::Made(Ok(blank)) | Prepared::Wiped(Ok(blank)) => {
                self.journal.blanks.push_back(blank);
                // A disk may be full although a file that it has was wiped.
                if made || self.journal.blanks.len() >= BLANKS {
                    self.refused_at = None;
                    Self::note_trouble(state, None);
                }
            }
            Prepared::Made(Err(error)) | Prepared::Wiped(Err(error)) => {
                self.refused_at = Some(uptime());
                Self::note_trouble(state, Some(Trouble::of(&error)));
            }
        }
    }

    /// Notes whether the journal can grow; one line in the log for each change.
    fn note_trouble(state: &mut State, trouble: Option<Trouble>) {
        if state.trouble != trouble {
            log_trouble(&state.name, trouble.as_ref());
            state.trouble = trouble;
        }
    }

    /// Syncs if anybody waits for it or it is time, and tells how far the groups have come.
    fn publish(&mut self, number: u64, solid: u64) -> io::Result<()> {
        let unsynced = self.journal.durable_lsn < self.journal.written_lsn();
        let answer_when_written = self.durability != Durability::Sync;
        let durable_before = self.shared.durable();
        let waited_for = !answer_when_written && solid > durable_before;
        if unsynced && self.unsynced_since.is_none() {
            self.unsynced_since = Some(uptime());
        }
        // A file that is to be wiped waits for a sync, and callers may wait for its space.
        let space_waits = self.refused_at.is_some() && !self.journal.retired.is_empty();
        let overdue = space_waits
            || self.unsynced_since.is_some_and(|since| uptime().saturating_sub(since) >= self.patience());
        let durable = if answer_when_written || !unsynced { number } else { durable_before };
        if unsynced {
            self.check_ours()?;
        }
        self.shared.advance(number, durable);
        if unsynced && (waited_for || overdue) {
            let start = uptime();
            self.journal.sync()?;
            self.check_ours()?;
            self.unsynced_since = None;
            let end = uptime();
            let (calls, comeback) = {
                let state = self.shared.lock();
                (state.calls, state.comeback)
            };
            let answered = self.shared.advance(number, number);
            self.shared.lock().comeback.answered(comeback.calls, answered, end);
            self.gathering = Gathering {
                sync_took: end.saturating_sub(start),
                calls_expected: calls + answered,
                came_back: comeback.took(),
            };
        }
        Ok(())
    }

    /// What is written into a directory that was deleted or replaced, or into a deleted segment, must not be answered.
    fn check_ours(&self) -> io::Result<()> {
        self.journal.live.back().map_or(Ok(()), |segment| self.disk.check(&segment.name))
    }

    /// Hands files that nobody needs to the preparer, and has as many segments prepared as there should be.
    fn tidy(&mut self, room_wanted: u64) {
        for file in self.journal.filled.drain(..) {
            let _ = self.chores.send(Chore::LetGo(file));
        }
        for blank in self.journal.take_wipeable() {
            // What a disk that refused is asked for does not count: it will not come.
            let coming = if self.refused_at.is_some() { self.wiping } else { self.coming };
            let enough = self.journal.blanks.len() + coming >= BLANKS;
            let wrong_size = blank.size != self.segment_bytes;
            if enough || wrong_size {
                let _ = self.chores.send(Chore::Remove(blank));
            } else {
                self.coming += 1;
                self.wiping += 1;
                let _ = self.chores.send(Chore::Wipe(blank));
            }
        }
        // A disk that refused is not asked again at once.
        if self.refused_at.is_some_and(|at| uptime().saturating_sub(at) < DISK_RETRY) {
            return;
        }
        let coming_bytes = |coming: usize| coming as u64 * (self.segment_bytes - SEGMENT_LOSS_BYTES);
        let (blanks, space) = (self.journal.blanks.len(), self.space_beside(0));
        let lacking = |coming: usize| blanks + coming < BLANKS || space + coming_bytes(coming) < room_wanted;
        while lacking(self.coming) {
            self.coming += 1;
            let _ = self.chores.send(Chore::Make);
        }
    }

    /// Writes the mark that says that everything before it is durable.
    fn close(&mut self, number: u64) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        state.engine.note_close();
        let (_, group) = state.take_group(Group::default());
        state.life = Life::Closed;
        drop(state);
        self.shared.unblock();
        self.journal.append(&group.bytes.0, &group.homes, group.time)?;
        self.journal.sync()?;
        self.shared.advance(number + 1, number + 1);
        Ok(())
    }
}
