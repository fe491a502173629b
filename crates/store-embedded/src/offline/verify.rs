//! `verify`: checks whether a store is sound. Changes nothing on disk.

use std::fmt;
use std::path::Path;

use oncebox_core::Error;

use super::ReadOnly;
use super::analysis::Analysis;
use super::finding::Damage;
use crate::codec::{self, Damaged, Reader};
use crate::disk::Disk;
use crate::lock::DirectoryLock;
use crate::recovery::TornTail;

/// The result of `verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// All confirmed writes are intact.
    Sound,
    /// The end of the journal cannot be read: either a crash interrupted a write, or the last write, which may have
    /// been confirmed, is damaged. The next open truncates it; everything before it is intact.
    Torn(TornTail),
    /// Confirmed writes cannot be read: the store does not open. `repair` makes it open again.
    Damaged(Damage),
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => f.write_str("sound"),
            Self::Torn(tail) => write!(f, "sound except for its end, which the next open truncates: {tail}"),
            Self::Damaged(damage) => write!(f, "damaged; make a copy, then repair:\n{damage}"),
        }
    }
}

/// Checks whether all confirmed writes of the store in a directory are intact, by the same rules as opening it. Changes
/// nothing on disk. Finds all damage, not only the first.
///
/// Damage to the very last group after a crash cannot be distinguished from a write that the crash interrupted.
///
/// # Errors
/// `Unavailable` if another process has the store open (the text names the process) or it cannot be read; `Invalid` if
/// there is no store; `Corrupt` if the store's id, without which no frame can be read, cannot be found; `Unsupported`
/// if the store has another format version.
pub fn verify(path: &Path) -> Result<Verified, Error> {
    let disk = ReadOnly::open(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    let analysis = read(&disk)?;
    Ok(verdict(analysis))
}

/// Analyzes the journal and decodes every group.
pub(super) fn read(disk: &dyn Disk) -> Result<Analysis, Error> {
    let mut analysis = Analysis::of(disk)?;
    analysis.groups(disk, &mut |group, _| check_entries(group))?;
    Ok(analysis)
}

pub(super) fn verdict(analysis: Analysis) -> Verified {
    match analysis.torn_tail {
        _ if !analysis.damage.is_empty() => Verified::Damaged(analysis.damage),
        Some(tail) => Verified::Torn(tail),
        None => Verified::Sound,
    }
}

fn check_entries(group: &[u8]) -> Result<(), Damaged> {
    let mut reader = Reader(group);
    while !reader.is_at_end() {
        codec::decode_entry(&mut reader)?;
    }
    Ok(())
}
