//! `stats`: shows what is in a store. Changes nothing on disk.

use std::fmt;
use std::path::Path;

use oncebox_core::machine::{CallContext, Capacity};
use oncebox_core::{Counts, Error, ErrorKind, Namespace, Scope, Timestamp};
use oncebox_system::SystemRng;

use super::ReadOnly;
use super::analysis::Analysis;
use super::scan::HeaderState;
use crate::codec::Damaged;
use crate::engine::{Group, Recovering};
use crate::lock::DirectoryLock;
use crate::recovery::TornTail;

/// Number and total size of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SegmentTotals {
    /// The number of segments.
    pub count: u64,
    /// The total size of their files.
    pub bytes: u64,
}

/// Statistics of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The store's id.
    pub id: u128,
    /// How often the store has been opened, not counting repairs.
    pub epoch: u64,
    /// Segments that the journal needs.
    pub live: SegmentTotals,
    /// Segments that are not needed any more and not wiped yet.
    pub obsolete: SegmentTotals,
    /// Segments preallocated for later use.
    pub free: SegmentTotals,
    /// The LSNs of the oldest and the newest frame; none if there are no frames.
    pub lsns: Option<(u64, u64)>,
    /// The number of complete groups of effects.
    pub groups: u64,
    /// The total size of all frames, headers included.
    pub frame_bytes: u64,
    /// Messages by namespace and state, at the last recorded time.
    pub messages: Vec<(Namespace, Counts)>,
    /// The last recorded store time.
    pub time: Timestamp,
    /// Whether the store was closed properly, and did not end with a crash.
    pub closed: bool,
    /// The end of the journal that the next open truncates.
    pub torn_tail: Option<TornTail>,
}

/// Reads the statistics of the store in a directory. Changes nothing on disk.
///
/// # Errors
/// As `verify`. Also `Corrupt` if the store is damaged, because its content is uncertain then.
pub fn stats(path: &Path) -> Result<Stats, Error> {
    let disk = ReadOnly::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    let mut analysis = Analysis::of(&disk)?;
    // A damaged journal is not replayed: its groups may contradict each other.
    reject_damage(&analysis)?;
    let mut recovering = Recovering::new(Capacity::default());
    let groups = analysis.groups(&disk, &mut |group, _| {
        recovering.replay(group).map(drop).map_err(|_| Damaged("an entry that cannot be read"))
    })?;
    reject_damage(&analysis)?;
    let frames = &analysis.frames;
    let time = frames.iter().map(|frame| frame.header.time_ms).max().unwrap_or(0);
    Ok(Stats {
        id: u128::from_be_bytes(analysis.scan.store),
        epoch: epoch(&analysis).max(recovering.boot.epoch),
        live: totals(&analysis, |index, _| analysis.live.contains(&index)),
        obsolete: totals(&analysis, |index, blank| !analysis.live.contains(&index) && !blank),
        free: totals(&analysis, |index, blank| !analysis.live.contains(&index) && blank),
        lsns: frames.first().zip(frames.last()).map(|(first, last)| (first.header.lsn, last.header.lsn)),
        groups: groups.complete,
        frame_bytes: frames.iter().map(|frame| frame.bytes as u64).sum(),
        messages: counts(&mut recovering, Timestamp::from_millis(time)),
        time: Timestamp::from_millis(time),
        closed: recovering.boot.closed,
        torn_tail: analysis.torn_tail,
    })
}

fn reject_damage(analysis: &Analysis) -> Result<(), Error> {
    let text = "the store is damaged: verify it, make a copy, then repair it";
    if analysis.damage.is_empty() { Ok(()) } else { Err(Error::new(ErrorKind::Corrupt, text)) }
}

fn epoch(analysis: &Analysis) -> u64 {
    let epochs = analysis.scan.files.iter().map(|file| match file.header {
        HeaderState::Ours(header) => header.epoch,
        HeaderState::Foreign | HeaderState::Missing => 0,
    });
    epochs.max().unwrap_or(0)
}

fn totals(analysis: &Analysis, counts: impl Fn(usize, bool) -> bool) -> SegmentTotals {
    let mut totals = SegmentTotals::default();
    for (index, file) in analysis.scan.files.iter().enumerate() {
        if counts(index, file.header == HeaderState::Missing && file.used == 0) {
            totals.count += 1;
            totals.bytes += file.size;
        }
    }
    totals
}

fn counts(recovering: &mut Recovering, now: Timestamp) -> Vec<(Namespace, Counts)> {
    let (mut ids, mut group) = (SystemRng::default(), Group::default());
    let mut context = CallContext { now, ids: &mut ids, journal: &mut group };
    let count = |namespace| {
        let scope = Scope::all(namespace);
        (namespace, recovering.machine.counts(&mut context, &scope))
    };
    Namespace::ALL.map(count).to_vec()
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = if self.closed { "closed" } else { "not closed" };
        writeln!(f, "store {:032x}, opened {} times, {closed}", self.id, self.epoch)?;
        for (what, totals) in [("live", self.live), ("obsolete", self.obsolete), ("free", self.free)] {
            writeln!(f, "{what} segments: {} with {} bytes", totals.count, totals.bytes)?;
        }
        let (first, last) = self.lsns.unwrap_or((0, 0));
        writeln!(f, "frames {first} to {last}: {} groups, {} bytes", self.groups, self.frame_bytes)?;
        if let Some(tail) = &self.torn_tail {
            writeln!(f, "the next open truncates the end of the journal: {tail}")?;
        }
        for (namespace, counts) in &self.messages {
            let Counts { seen, ready, waiting, leased, done, dead, .. } = counts;
            writeln!(
                f,
                "{namespace}: {seen} seen, {ready} ready, {waiting} waiting, {leased} leased, {done} done, {dead} dead"
            )?;
        }
        write!(f, "last recorded at {}, store time", self.time)
    }
}
