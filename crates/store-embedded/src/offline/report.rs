//! The report of a repair, with texts for operators.

use std::fmt;
use std::path::PathBuf;

use oncebox_core::Timestamp;

use super::LISTED_MAX;
use super::analysis::{Analysis, Gap, Groups};
use super::finding::Damage;
use super::verify::Verified;

/// What `repair` did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repaired {
    /// Nothing: the store has no damage that needs repair. No copy was made.
    Nothing(Verified),
    /// The store opens again.
    Done(RepairReport),
}

/// A range of the journal that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The LSN of the first lost frame; none if unknown.
    pub first_lsn: Option<u64>,
    /// The LSN of the last lost frame; none if unknown.
    pub last_lsn: Option<u64>,
    /// Store time of the last readable frame before the loss; none if there is no such frame.
    pub after: Option<Timestamp>,
    /// Store time of the first readable frame after the loss; none if there is no such frame.
    pub before: Option<Timestamp>,
}

/// What a repair found, kept and lost.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The damage that was found.
    pub found: Damage,
    /// The copy of the directory before the repair.
    pub copy: PathBuf,
    /// Whether the journal was rewritten; if not, only other files were damaged.
    pub rewritten: bool,
    /// The number of messages in the repaired store; none if the journal was not rewritten.
    pub messages_kept: Option<u64>,
    /// The number of unreadable frames, as far as known. Each contained at least a part of a group of effects.
    pub frames_lost: u64,
    /// Groups left out because one of their frames could not be read, or because they could not be decoded.
    pub groups_lost: u64,
    /// The number of bytes in the place of the lost frames.
    pub bytes_lost: u64,
    /// Effects left out because their message is missing.
    pub effects_lost: u64,
    /// The first 100 losses, in order.
    pub losses: Vec<Loss>,
    /// The number of losses that are not listed.
    pub losses_unlisted: u64,
}

impl RepairReport {
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

    /// Whether confirmed writes may be missing from the repaired store.
    pub fn is_lossy(&self) -> bool {
        !self.losses.is_empty() || self.groups_lost > 0
    }

    pub(super) fn count(&mut self, analysis: &Analysis, groups: &Groups) {
        let mut gaps: Vec<&Gap> = analysis.gaps.iter().chain(&groups.undecodable).collect();
        gaps.sort_by_key(|gap| gap.last_lsn.unwrap_or(u64::MAX));
        let frames = gaps.iter().filter_map(|gap| Some(gap.last_lsn? + 1 - gap.first_lsn?));
        self.frames_lost = frames.sum::<u64>() + groups.frames_unused;
        self.bytes_lost = gaps.iter().map(|gap| gap.bytes).sum();
        self.groups_lost = groups.broken + groups.undecodable.len() as u64;
        self.losses_unlisted = gaps.len().saturating_sub(LISTED_MAX) as u64;
        self.losses = gaps.into_iter().take(LISTED_MAX).map(|gap| loss(analysis, gap)).collect();
    }
}

fn loss(analysis: &Analysis, gap: &Gap) -> Loss {
    let first = gap.first_lsn.unwrap_or(0);
    let following =
        analysis.frames.partition_point(|frame| frame.header.lsn <= gap.last_lsn.unwrap_or(u64::MAX));
    let preceding = analysis.frames.partition_point(|frame| frame.header.lsn < first);
    let time =
        |index: usize| analysis.frames.get(index).map(|frame| Timestamp::from_millis(frame.header.time_ms));
    Loss {
        first_lsn: gap.first_lsn,
        last_lsn: gap.last_lsn,
        after: preceding.checked_sub(1).and_then(time),
        before: time(following),
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first_lsn, self.last_lsn) {
            (Some(first), Some(last)) => write!(f, "frames {first} to {last}")?,
            (None, Some(last)) => write!(f, "frames up to {last}")?,
            (first, None) => write!(f, "frames from {} on, number unknown", first.unwrap_or(1))?,
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

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "found:\n{}", self.found)?;
        writeln!(f, "copy of the original directory: {}", self.copy.display())?;
        if let Some(kept) = self.messages_kept {
            writeln!(f, "kept: {kept} messages, rewritten")?;
        }
        if !self.is_lossy() {
            return f.write_str("nothing was lost");
        }
        writeln!(
            f,
            "lost: {} frames, {} incomplete groups, {} bytes, {} effects on missing messages",
            self.frames_lost, self.groups_lost, self.bytes_lost, self.effects_lost
        )?;
        for loss in &self.losses {
            writeln!(f, "{loss}")?;
        }
        if self.losses_unlisted > 0 {
            writeln!(f, "and {} more", self.losses_unlisted)?;
        }
        f.write_str(
            "messages accepted in the lost frames are gone: have their senders send them again; \
             messages settled there may be delivered once more; messages erased there may be back; \
             keys first seen there are not recognized as duplicates",
        )
    }
}
