//! `repair`: makes a damaged store open again with the least loss.

use std::path::Path;
use std::sync::Arc;

use oncebox_core::Error;

use super::finding::Finding;
use super::reading::Reading;
use super::report::{Repaired, Report};
use super::rewrite::{note_newest, rewrite};
use super::salvage::Salvaged;
use super::survey::Head;
use super::{ReadOnly, copy, verify};
use crate::disk::{Disk, RealDisk};
use crate::identity;
use crate::lock::DirectoryLock;
use crate::private;
use crate::recovery::failed;
use crate::segment::SegmentHeader;

/// Makes a damaged store open again. First copies all files of the store to `copy_to`, which must not exist. A store that is
/// sound, or whose torn end the next opening cuts, is left alone.
///
/// Every group of effects that can be read counts, before and behind the damage, in its order; a group that cannot be read
/// whole is left out whole. What a readable effect takes for granted is made so: a settlement counts although its lease
/// was lost. The resulting messages are written anew into a fresh journal. The report tells what could not be read.
///
/// Repair keeps *at least once*, not what was lost: a message whose acceptance was lost is gone, one whose settlement was
/// lost is given out again, a key that was lost is not known as a duplicate, and an erasure that was lost is undone.
/// Leases may be lost, too, so nothing is given out until the longest of them would have ended. Fences never come again:
/// the fresh journal belongs to an opening far behind any that left a trace.
///
/// A crash in the middle leaves either the damaged store, which still does not open, or the repaired one; beside the copy.
/// All frames of the fresh journal are durable before the first of its headers is written, and the header without which
/// the others do not count is written last, in one piece. Repair again, with another place for the copy.
///
/// # Errors
/// `Unavailable` if the store is open somewhere, cannot be read or written, or there is no room, `Invalid` if there is no
/// store, others can write its directory, or `copy_to` exists or lies inside the store, `Corrupt` if nothing tells the store's id,
/// `Unsupported` if it has another format version.
pub fn repair(path: &Path, copy_to: &Path) -> Result<Repaired, Error> {
    let read_only = ReadOnly::open(path)?;
    private::refuse_shared(path)?;
    let _lock = DirectoryLock::take(path)?;
    let reading = verify::read(&read_only)?;
    if reading.damage.is_empty() {
        return Ok(Repaired::Nothing(verify::verdict(reading)));
    }
    copy::copy(path, copy_to)?;
    private::tighten(path).map_err(|error| failed("opening the directory", error))?;
    DirectoryLock::sign(path);
    let mut reading = Reading::of(&read_only)?;
    let (salvaged, groups) = Salvaged::from(&mut reading, &read_only)?;
    let mut report = Report::new(reading.damage.clone(), copy_to.to_owned());
    report.count(&reading, &groups);
    report.effects_lost = salvaged.effects_lost;
    let disk = RealDisk::open(path).map_err(|error| failed("opening the directory", error))?;
    if !reading.survey.identified {
        let left_over = path.join(identity::NAME).exists();
        let written = identity::write(&disk, reading.survey.store, left_over);
        let written = written.and_then(|store| note_newest(&disk, store, newest_header(&reading)));
        written.map_err(|error| failed("writing the store's id", error))?;
    }
    if report.found.unlisted > 0 || report.found.findings.iter().any(is_of_journal) {
        let boot = salvaged.boot(report.is_lossy());
        let written = rewrite(Arc::new(disk), &reading, &salvaged, &boot);
        report.messages_kept = Some(written.map_err(|error| failed("writing the repaired journal", error))?);
        report.rewritten = true;
    } else {
        remove_foreign(&disk, &report.found.findings).map_err(|error| failed("removing a file", error))?;
    }
    Ok(Repaired::Done(report))
}

/// The header of the newest segment that can be read, and its file's name.
fn newest_header(reading: &Reading) -> Option<(SegmentHeader, &str)> {
    let headers = reading.survey.files.iter().filter_map(|file| match file.head {
        Head::Ours(header) => Some((header, file.name.as_str())),
        Head::OfAnotherStore | Head::Missing => None,
    });
    headers.max_by_key(|(header, _)| header.generation)
}

/// Whether the journal itself is damaged, not only something beside it.
fn is_of_journal(finding: &Finding) -> bool {
    !matches!(finding, Finding::Identity | Finding::Foreign { .. })
}

/// What belongs to another store is in the copy; opening would wipe it anyway.
fn remove_foreign(disk: &dyn Disk, findings: &[Finding]) -> std::io::Result<()> {
    for finding in findings {
        if let Finding::Foreign { file } = finding {
            disk.remove(file)?;
        }
    }
    disk.sync_names()
}
