//! `verify`: is the store sound? Changes not a byte.

use std::fmt;
use std::path::Path;

use oncebox_core::Error;

use super::ReadOnly;
use super::finding::Damage;
use super::reading::Reading;
use crate::codec::{self, Damaged, Reader};
use crate::disk::Disk;
use crate::lock::DirectoryLock;
use crate::recovery::Cut;

/// What `verify` found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verified {
    /// Everything that was answered is there.
    Sound,
    /// The journal's end cannot be read: a write that a crash interrupted or damage to the last one, which may have been
    /// answered. The next opening cuts it off here; everything before it is there.
    Torn(Cut),
    /// Something that was answered cannot be read: the store does not open. `repair` makes it open again.
    Damaged(Damage),
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sound => f.write_str("sound"),
            Self::Torn(cut) => write!(f, "sound up to its end; the next opening cuts the rest: {cut}"),
            Self::Damaged(damage) => write!(f, "damaged; keep a copy, then repair:\n{damage}"),
        }
    }
}

/// Reads the store in a directory as opening it does, and tells whether everything that was answered is there. Changes
/// nothing on disk. Finds all damage, not only the first.
///
/// What cannot be told: damage to the very last group after a crash looks like a write that the crash interrupted.
///
/// # Errors
/// `Unavailable` if the store is open somewhere (the text names the process) or cannot be read, `Invalid` if there is no
/// store, `Corrupt` if nothing tells the store's id, without which no frame can be read, `Unsupported` if it has another
/// format version.
pub fn verify(path: &Path) -> Result<Verified, Error> {
    let disk = ReadOnly::open(path)?;
    let _lock = DirectoryLock::take(path)?;
    let reading = read(&disk)?;
    Ok(verdict(reading))
}

/// Reads everything and looks into every group.
pub(super) fn read(disk: &dyn Disk) -> Result<Reading, Error> {
    let mut reading = Reading::of(disk)?;
    reading.groups(disk, &mut |group, _| understand(group))?;
    Ok(reading)
}

pub(super) fn verdict(reading: Reading) -> Verified {
    match reading.torn {
        _ if !reading.damage.is_empty() => Verified::Damaged(reading.damage),
        Some(cut) => Verified::Torn(cut),
        None => Verified::Sound,
    }
}

fn understand(group: &[u8]) -> Result<(), Damaged> {
    let mut reader = Reader(group);
    while !reader.is_at_end() {
        codec::decode_entry(&mut reader)?;
    }
    Ok(())
}
