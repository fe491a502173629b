//! The thread that writes groups and makes them durable.

use std::io;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
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
use crate::shared::{GROUP_BYTES_MAX, Life, Shared, State};
use crate::trouble::Trouble;

/// Leases are on disk after this long at most.
const LEASE_SYNC: Duration = Duration::from_millis(50);
/// The time is recorded at least this often.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// A disk that is full is asked again after this long.
const DISK_RETRY: Duration = Duration::from_secs(1);
/// Bytes that reclaiming adds to one group at most.
const SLICE_BYTES: usize = 256 << 10;
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
    /// Of the oldest segment: what is still to be written again.
    pub(crate) reclaiming: Option<Vec<Uid>>,
    pub(crate) segment_bytes: u64,
    pub(crate) spare: Group,
    /// Reclaiming waits for room.
    pub(crate) stalled: bool,
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
        self.plan_reclaim(&mut state);
        if let Some(homes) = &mut self.reclaiming {
            let room = usize::try_from(state.room).unwrap_or(usize::MAX);
            let before = state.engine.group.bytes.0.len();
            let wanted = state.engine.write_again(homes, SLICE_BYTES.min(room / 2), room);
            // Callers fill the next group before this one is written, so what it took must be gone for them by now.
            let written = (state.engine.group.bytes.0.len() - before) as u64;
            state.room = state.room.saturating_sub(written + written / 64);
            state.room_wanted = state.room_wanted.max(wanted as u64);
            self.stalled = wanted > 0;
        }
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
        // A sign of life must not take the room that the next opening needs.
        let sign_of_life = idle_for >= HEARTBEAT && self.journal.room() > 0;
        if !group.is_empty() || self.journal.wants_a_group() || sign_of_life {
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
        let idle = |state: &mut State| {
            state.syncer_sleeps = state.engine.group.is_empty()
                && !state.prepared
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

    /// Takes over the segments that the preparer has finished, and tells the callers how much room there is.
    fn collect(&mut self, state: &mut State) {
        let before = state.room;
        loop {
            match self.done.try_recv() {
                Ok(Ok(blank)) => {
                    self.coming -= 1;
                    self.journal.blanks.push_back(blank);
                    self.refused_at = None;
                    note_trouble(state, None);
                }
                Ok(Err(error)) => {
                    self.coming -= 1;
                    self.refused_at = Some(uptime());
                    note_trouble(state, Some(Trouble::of(&error)));
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        let waiting = state.engine.group.bytes.0.len() as u64;
        state.room = self.journal.room().saturating_sub(waiting + waiting / 64 + HEADER_BYTES as u64);
        state.disk_bytes = self.journal.bytes();
        state.prepared = false;
        if state.room >= state.room_wanted {
            state.room_wanted = 0;
        }
        if state.room > before || state.trouble.is_some() {
            self.shared.unblock();
        }
    }

    /// Whether the journal is much larger than what it holds.
    fn has_too_much(&self, state: &State) -> bool {
        let needed = 1 + usize::try_from(state.engine.machine.live_bytes() * 2 / self.segment_bytes)
            .unwrap_or(usize::MAX - 1);
        self.journal.live.len() > needed
    }

    /// Whether there is nothing to reclaim, or no room to do it.
    fn reclaim_rests(&self, state: &State) -> bool {
        if self.reclaiming.is_some() { self.stalled } else { !self.has_too_much(state) }
    }

    /// Begins to write again what the oldest segment holds if the journal has too much.
    fn plan_reclaim(&mut self, state: &mut State) {
        if self.reclaiming.is_none() && self.has_too_much(state) {
            let oldest = self.journal.live.front_mut().expect("there is an oldest segment");
            self.reclaiming = Some(std::mem::take(&mut oldest.homes));
            state.engine.write_boot();
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
        let overdue =
            self.unsynced_since.is_some_and(|since| uptime().saturating_sub(since) >= self.patience());
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
            let enough = self.journal.blanks.len() + self.coming >= BLANKS;
            let wrong_size = blank.size != self.segment_bytes;
            if enough || wrong_size {
                let _ = self.chores.send(Chore::Remove(blank));
            } else {
                self.coming += 1;
                let _ = self.chores.send(Chore::Wipe(blank));
            }
        }
        // A disk that refused is not asked again at once.
        if self.refused_at.is_some_and(|at| uptime().saturating_sub(at) < DISK_RETRY) {
            return;
        }
        let coming_bytes = |coming: usize| coming as u64 * (self.segment_bytes - SEGMENT_LOSS_BYTES);
        let lacking = |coming: usize| {
            self.journal.blanks.len() + coming < BLANKS
                || self.journal.room() + coming_bytes(coming) < room_wanted
        };
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

/// Notes whether the journal can grow; one line in the log for each change.
fn note_trouble(state: &mut State, trouble: Option<Trouble>) {
    if state.trouble == trouble {
        return;
    }
    let store = &state.name;
    match &trouble {
        Some(Trouble { text, .. }) => {
            tracing::warn!(%store, "the journal cannot grow, nothing new is taken in: {text}");
        }
        None => tracing::info!(%store, "the journal can grow again"),
    }
    state.trouble = trouble;
}
