//! What a repair did, in words for an operator.

use std::fmt;
use std::path::PathBuf;

use oncebox_core::Timestamp;

use super::LISTED_MAX;
use super::finding::Damage;
use super::reading::{Gap, Groups, Reading};
use super::verify::Verified;

/// What `repair` did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repaired {
    /// Nothing: the store is sound. No copy was made.
    Nothing(Verified),
    /// The store opens again.
    Done(Report),
}

/// A part of the journal that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The first frame; none if nobody can tell how far back the loss reaches.
    pub first_lsn: Option<u64>,
    /// The last frame; none if nobody can tell how far the loss reaches.
    pub last_lsn: Option<u64>,
    /// Store time of what can be read before it; none if there is nothing.
    pub after: Option<Timestamp>,
    /// Store time of what can be read behind it; none if there is nothing.
    pub before: Option<Timestamp>,
}

/// What a repair found, kept and lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What was wrong.
    pub found: Damage,
    /// Where the directory lies as it was.
    pub copy: PathBuf,
    /// Whether the journal was written anew; if not, only files beside it were at fault.
    pub rewritten: bool,
    /// Messages that the repaired store holds; none if the journal was not written anew.
    pub messages_kept: Option<u64>,
    /// Frames that could not be read, as far as they can be counted. Each held at least a part of a group of effects.
    pub frames_lost: u64,
    /// Groups left out because a frame of theirs could not be read, or because they could not be understood.
    pub groups_lost: u64,
    /// Bytes in the places of what was lost.
    pub bytes_lost: u64,
    /// Effects left out because their message is not there.
    pub effects_lost: u64,
    /// What was lost, in order: the first hundred parts.
    pub losses: Vec<Loss>,
    /// How many more there are.
    pub losses_unlisted: u64,
}

impl Report {
    pub(super) fn new(found: Damage, copy: PathBuf) -> Self {
        Self {
            found,
            copy,
            rewritten: false,
            messages_kept: None,
            frames_lost: 0,
            groups_lost: 0,
            bytes_lost: 0,
            effects_lost: 0,
            losses: Vec::new(),
            losses_unlisted: 0,
        }
    }

    /// Whether something that was answered may be missing from the repaired store.
    pub fn is_lossy(&self) -> bool {
        !self.losses.is_empty() || self.groups_lost > 0
    }

    pub(super) fn count(&mut self, reading: &Reading, groups: &Groups) {
        let mut gaps: Vec<&Gap> = reading.gaps.iter().chain(&groups.undecodable).collect();
        gaps.sort_by_key(|gap| gap.last_lsn.unwrap_or(u64::MAX));
        let frames = gaps.iter().filter_map(|gap| Some(gap.last_lsn? + 1 - gap.first_lsn?));
        self.frames_lost = frames.sum::<u64>() + groups.frames_unused;
        self.bytes_lost = gaps.iter().map(|gap| gap.bytes).sum();
        self.groups_lost = groups.broken + groups.undecodable.len() as u64;
        self.losses_unlisted = gaps.len().saturating_sub(LISTED_MAX) as u64;
        self.losses = gaps.into_iter().take(LISTED_MAX).map(|gap| loss(reading, gap)).collect();
    }
}

fn loss(reading: &Reading, gap: &Gap) -> Loss {
    let first = gap.first_lsn.unwrap_or(0);
    let behind = reading.frames.partition_point(|spot| spot.header.lsn <= gap.last_lsn.unwrap_or(u64::MAX));
    let before = reading.frames.partition_point(|spot| spot.header.lsn < first);
    let time =
        |index: usize| reading.frames.get(index).map(|spot| Timestamp::from_millis(spot.header.time_ms));
    Loss {
        first_lsn: gap.first_lsn,
        last_lsn: gap.last_lsn,
        after: before.checked_sub(1).and_then(time),
        before: time(behind),
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first_lsn, self.last_lsn) {
            (Some(first), Some(last)) => write!(f, "frames {first} to {last}")?,
            (None, Some(last)) => write!(f, "frames up to {last}")?,
            (first, None) => write!(f, "frames from {} on, nobody can tell how many", first.unwrap_or(1))?,
        }
        let moment = |at: Option<Timestamp>| at.map_or("unknown".to_owned(), |at| at.to_string());
        write!(f, ", written between {} and {} (store time)", moment(self.after), moment(self.before))
    }
}

impl fmt::Display for Repaired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(verified) => write!(f, "nothing to repair: {verified}"),
            Self::Done(report) => report.fmt(f),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "found:\n{}", self.found)?;
        writeln!(f, "the directory as it was: {}", self.copy.display())?;
        if let Some(kept) = self.messages_kept {
            writeln!(f, "kept: {kept} messages, written anew")?;
        }
        if !self.is_lossy() {
            return f.write_str("nothing was lost");
        }
        writeln!(
            f,
            "lost: {} frames, {} groups known in part, {} bytes, {} effects on messages that are gone",
            self.frames_lost, self.groups_lost, self.bytes_lost, self.effects_lost
        )?;
        for loss in &self.losses {
            writeln!(f, "{loss}")?;
        }
        if self.losses_unlisted > 0 {
            writeln!(f, "and {} more", self.losses_unlisted)?;
        }
        f.write_str(
            "a message accepted there and not written again is gone: have its sender send again; \
             a message settled there may be given out once more; a message erased there may be back; \
             a key first seen there is not known as a duplicate",
        )
    }
}
