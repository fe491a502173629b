//! `stats`: what is in the store. Changes not a byte.

use std::fmt;
use std::path::Path;

use oncebox_core::machine::{Capacity, Turn};
use oncebox_core::{Counts, Error, Kind, Namespace, Scope, Timestamp};
use oncebox_system::SystemRng;

use super::ReadOnly;
use super::reading::Reading;
use super::survey::Head;
use crate::codec::Damaged;
use crate::engine::{Group, Recovering};
use crate::lock::DirectoryLock;
use crate::recovery::Cut;

/// How many segments there are, and their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SegmentTotals {
    /// How many.
    pub count: u64,
    /// The size of their files.
    pub bytes: u64,
}

/// What is in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The store's id.
    pub id: u128,
    /// How often the store has been opened, repairs aside.
    pub epoch: u64,
    /// Segments that the journal needs.
    pub live: SegmentTotals,
    /// Segments that nobody needs any more and that are not wiped yet.
    pub unneeded: SegmentTotals,
    /// Segments that are prepared for later.
    pub blank: SegmentTotals,
    /// The oldest and the newest frame; none if there is none.
    pub lsns: Option<(u64, u64)>,
    /// Whole groups of effects.
    pub groups: u64,
    /// Frames with their headers.
    pub frame_bytes: u64,
    /// Messages by namespace and state, at the moment that was recorded last.
    pub messages: Vec<(Namespace, Counts)>,
    /// The moment that was recorded last.
    pub time: Timestamp,
    /// Whether the store was closed, and not left by a crash.
    pub closed: bool,
    /// Where the next opening will cut the end of the journal.
    pub torn: Option<Cut>,
}

/// Tells what is in the store in a directory. Changes nothing on disk.
///
/// # Errors
/// As `verify`; `Corrupt` also if the store is damaged, for then nobody can tell what is in it.
pub fn stats(path: &Path) -> Result<Stats, Error> {
    let disk = ReadOnly::open(path)?;
    let _lock = DirectoryLock::take(path)?;
    let mut reading = Reading::of(&disk)?;
    // What is damaged may not fit together; it is not replayed.
    refuse_damage(&reading)?;
    let mut recovering = Recovering::new(Capacity::default());
    let groups = reading.groups(&disk, &mut |group, _| {
        recovering.replay(group).map(drop).map_err(|_| Damaged("an entry that cannot be read"))
    })?;
    refuse_damage(&reading)?;
    let frames = &reading.frames;
    let time = frames.iter().map(|spot| spot.header.time_ms).max().unwrap_or(0);
    Ok(Stats {
        id: u128::from_be_bytes(reading.survey.store),
        epoch: epoch(&reading).max(recovering.boot.epoch),
        live: totals(&reading, |index, _| reading.live.contains(&index)),
        unneeded: totals(&reading, |index, blank| !reading.live.contains(&index) && !blank),
        blank: totals(&reading, |index, blank| !reading.live.contains(&index) && blank),
        lsns: frames.first().zip(frames.last()).map(|(first, last)| (first.header.lsn, last.header.lsn)),
        groups: groups.whole,
        frame_bytes: frames.iter().map(|spot| spot.bytes as u64).sum(),
        messages: counts(&mut recovering, Timestamp::from_millis(time)),
        time: Timestamp::from_millis(time),
        closed: recovering.boot.closed,
        torn: reading.torn,
    })
}

fn refuse_damage(reading: &Reading) -> Result<(), Error> {
    let text = "the store is damaged: verify it, keep a copy, then repair it";
    if reading.damage.is_empty() { Ok(()) } else { Err(Error::new(Kind::Corrupt, text)) }
}

fn epoch(reading: &Reading) -> u64 {
    let epochs = reading.survey.files.iter().map(|file| match file.head {
        Head::Ours(header) => header.epoch,
        Head::OfAnotherStore | Head::Missing => 0,
    });
    epochs.max().unwrap_or(0)
}

fn totals(reading: &Reading, counts: impl Fn(usize, bool) -> bool) -> SegmentTotals {
    let mut totals = SegmentTotals::default();
    for (index, file) in reading.survey.files.iter().enumerate() {
        if counts(index, file.head == Head::Missing && file.used == 0) {
            totals.count += 1;
            totals.bytes += file.size;
        }
    }
    totals
}

fn counts(recovering: &mut Recovering, now: Timestamp) -> Vec<(Namespace, Counts)> {
    let (mut ids, mut group) = (SystemRng::default(), Group::default());
    let mut turn = Turn { now, ids: &mut ids, journal: &mut group };
    let count = |namespace| {
        let scope = Scope::all(namespace);
        (namespace, recovering.machine.counts(&mut turn, &scope))
    };
    Namespace::ALL.map(count).to_vec()
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = if self.closed { "closed" } else { "not closed" };
        writeln!(f, "store {:032x}, opened {} times, {closed}", self.id, self.epoch)?;
        for (what, totals) in [("live", self.live), ("unneeded", self.unneeded), ("blank", self.blank)] {
            writeln!(f, "{what} segments: {} with {} bytes", totals.count, totals.bytes)?;
        }
        let (first, last) = self.lsns.unwrap_or((0, 0));
        writeln!(f, "frames {first} to {last}: {} groups, {} bytes", self.groups, self.frame_bytes)?;
        if let Some(cut) = &self.torn {
            writeln!(f, "the next opening cuts the end of the journal: {cut}")?;
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
