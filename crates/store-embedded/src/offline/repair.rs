//! `repair`: makes a damaged store open again with the least loss.

use std::path::Path;
use std::sync::Arc;

use oncebox_core::Error;

use super::analysis::Analysis;
use super::finding::VerifyFinding;
use super::report::{RepairReport, Repaired};
use super::rewrite::{note_newest, rewrite};
use super::salvage::Salvaged;
use super::scan::HeaderState;
use super::{ReadOnly, copy, verify};
use crate::disk::{Disk, RealDisk};
use crate::error::failed;
use crate::file_names::STORE_FILE;
use crate::identity;
use crate::lock::DirectoryLock;
use crate::permissions;
use crate::segment::SegmentHeader;

/// Makes a damaged store open again. First copies all files of the store to `copy_to`, which must not exist. A sound
/// store, and one with only a torn tail, which the next open truncates, are left alone.
///
/// Every group of effects that can be read counts, before and after the damage, in order; a group that cannot be read
/// completely is left out completely. Missing preconditions of a readable effect are assumed: a settlement counts even
/// if its lease was lost. The resulting messages are written to a new journal. The report lists what could not be read.
///
/// Repair preserves *at-least-once* delivery, but not what was lost: a message whose acceptance was lost is gone, one
/// whose settlement was lost is delivered again, a lost key is not recognized as a duplicate, and a lost erasure is
/// undone. Leases may be lost, too, so nothing is delivered until the longest of them would have ended. Fences are
/// never reused: the epoch of the new journal is far above every epoch that left a trace.
///
/// A crash during repair leaves either the damaged store, which still does not open, or the repaired one, next to the
/// copy. All frames of the new journal are durable before the first of its headers is written, and the header that
/// makes it the live journal is written last, in one write. Run repair again, with another path for the copy.
///
/// # Errors
/// `Unavailable` if another process has the store open, it cannot be read or written, or the disk is full; `Invalid` if
/// there is no store, other users can write to its directory, or `copy_to` exists or is inside the store; `Corrupt` if
/// the store's id cannot be found; `Unsupported` if the store has another format version.
pub fn repair(path: &Path, copy_to: &Path) -> Result<Repaired, Error> {
    let read_only = ReadOnly::open(path)?;
    permissions::reject_writable_by_others(path)?;
    let _lock = DirectoryLock::acquire(path)?;
    let analysis = verify::read(&read_only)?;
    if analysis.damage.is_empty() {
        return Ok(Repaired::Nothing(verify::verdict(analysis)));
    }
    copy::copy(path, copy_to)?;
    permissions::restrict(path).map_err(|error| failed("opening the directory", error))?;
    DirectoryLock::write_pid(path);
    let mut analysis = Analysis::of(&read_only)?;
    let (salvaged, groups) = Salvaged::from(&mut analysis, &read_only)?;
    let mut report = RepairReport::new(analysis.damage.clone(), copy_to.to_owned());
    report.count(&analysis, &groups);
    report.effects_lost = salvaged.effects_lost;
    let disk = RealDisk::open(path).map_err(|error| failed("opening the directory", error))?;
    if !analysis.scan.identified {
        let left_over = path.join(STORE_FILE).exists();
        let written = identity::write(&disk, analysis.scan.store, left_over);
        let written = written.and_then(|store| note_newest(&disk, store, newest_header(&analysis)));
        written.map_err(|error| failed("writing the store's id", error))?;
    }
    if report.found.unlisted > 0 || report.found.findings.iter().any(is_of_journal) {
        let boot = salvaged.boot(report.is_lossy());
        let written = rewrite(Arc::new(disk), &analysis, &salvaged, &boot);
        report.messages_kept = Some(written.map_err(|error| failed("writing the repaired journal", error))?);
        report.rewritten = true;
    } else {
        remove_foreign(&disk, &report.found.findings).map_err(|error| failed("removing a file", error))?;
    }
    Ok(Repaired::Done(report))
}

/// The newest readable segment header, and its file name.
fn newest_header(analysis: &Analysis) -> Option<(SegmentHeader, &str)> {
    let headers = analysis.scan.files.iter().filter_map(|file| match file.header {
        HeaderState::Ours(header) => Some((header, file.name.as_str())),
        HeaderState::Foreign | HeaderState::Missing => None,
    });
    headers.max_by_key(|(header, _)| header.generation)
}

/// Whether the finding concerns the journal itself.
fn is_of_journal(finding: &VerifyFinding) -> bool {
    !matches!(finding, VerifyFinding::Identity | VerifyFinding::Foreign { .. })
}

/// Removes the segments of other stores. The copy still contains them.
fn remove_foreign(disk: &dyn Disk, findings: &[VerifyFinding]) -> std::io::Result<()> {
    for finding in findings {
        if let VerifyFinding::Foreign { file } = finding {
            disk.remove(file)?;
        }
    }
    disk.sync_directory()
}
