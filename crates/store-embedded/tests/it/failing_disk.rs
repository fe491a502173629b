//! A disk with injected faults: the N-th call of a kind fails, once or from then on.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use oncebox_store_embedded::disk::{Disk, DiskFile};

use crate::disk::SimDisk;

/// The calls that can fail. A write that grows its file is a different call from one that overwrites.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Names,
    Open,
    Create,
    Remove,
    SyncDirectory,
    Size,
    Read,
    Grow,
    Overwrite,
    Sync,
}

/// The kind of error that is injected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    NoSpace,
    TooManyFiles,
    Io,
    /// Half of the bytes are written, then an error. A call that writes nothing just fails.
    ShortWrite,
}

/// Which call fails, and with which error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// Only these calls count; if empty, all calls.
    pub(crate) calls: &'static [Call],
    /// Counted from one.
    pub(crate) nth: usize,
    pub(crate) kind: FaultKind,
    /// Whether every call that counts fails from then on.
    pub(crate) persistent: bool,
}

const PAGE_BYTES: usize = 4_096;

/// The page cache of a file: for each page, its content on disk.
#[derive(Default)]
struct Pages {
    /// Pages written since the last sync.
    dirty: BTreeMap<usize, Vec<u8>>,
    /// Pages whose sync failed. The system takes them for clean, so no later sync writes them.
    lost: BTreeMap<usize, Vec<u8>>,
}

#[derive(Default)]
struct Plan {
    fault: Option<Fault>,
    counted: usize,
    counts: BTreeMap<Call, usize>,
    triggered: bool,
    /// Whether a write or sync of the syncer thread failed.
    journal_failed: bool,
    pages: BTreeMap<String, Pages>,
}

/// A simulated disk with a fault; clones share both.
#[derive(Clone, Default)]
pub(crate) struct FailingDisk {
    inner: SimDisk,
    plan: Arc<Mutex<Plan>>,
}

impl FailingDisk {
    pub(crate) fn new(fault: Fault) -> Self {
        let disk = Self::default();
        disk.plan().fault = Some(fault);
        disk
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap()
    }

    /// Removes the fault: from now on nothing fails.
    pub(crate) fn clear_fault(&self) {
        self.plan().fault = None;
    }

    /// Whether the fault was triggered.
    pub(crate) fn triggered(&self) -> bool {
        self.plan().triggered
    }

    /// Whether the syncer thread hit the fault: no call may be confirmed after that.
    pub(crate) fn journal_failed(&self) -> bool {
        self.plan().journal_failed
    }

    /// The number of calls of each kind.
    pub(crate) fn counts(&self) -> BTreeMap<Call, usize> {
        self.plan().counts.clone()
    }

    /// The disk as a kill of the process would leave it now.
    pub(crate) fn after_kill(&self) -> SimDisk {
        self.inner.after_kill()
    }

    /// The disk as a power cut would leave it now: pages whose sync failed have their old content, even after later
    /// syncs.
    pub(crate) fn after_power_cut(&self) -> SimDisk {
        let left = self.inner.after_power_cut();
        for (name, pages) in &self.plan().pages {
            let Ok(file) = left.open(name) else { continue };
            let size = usize::try_from(file.size().unwrap()).unwrap();
            for (page, bytes) in &pages.lost {
                let start = page * PAGE_BYTES;
                let length = size.saturating_sub(start).min(bytes.len());
                file.write_at(start as u64, &bytes[..length]).unwrap();
            }
            file.sync().unwrap();
        }
        left
    }

    /// Counts a call. Returns the error to inject, if any.
    fn count(&self, call: Call) -> Option<FaultKind> {
        let mut plan = self.plan();
        *plan.counts.entry(call).or_default() += 1;
        let fault = plan.fault?;
        if !fault.calls.is_empty() && !fault.calls.contains(&call) {
            return None;
        }
        plan.counted += 1;
        if plan.counted != fault.nth && !(fault.persistent && plan.counted > fault.nth) {
            return None;
        }
        plan.triggered = true;
        plan.journal_failed |= std::thread::current().name() == Some("oncebox-sync");
        Some(fault.kind)
    }

    fn check(&self, call: Call) -> io::Result<()> {
        self.count(call).map_or(Ok(()), |kind| Err(error(kind)))
    }
}

fn error(kind: FaultKind) -> io::Error {
    let code = match kind {
        FaultKind::NoSpace => 28,
        FaultKind::TooManyFiles => 24,
        FaultKind::Io | FaultKind::ShortWrite => 5,
    };
    io::Error::from_raw_os_error(code)
}

impl Disk for FailingDisk {
    fn location(&self) -> String {
        self.inner.location()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.check(Call::Names)?;
        self.inner.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check(Call::Open)?;
        let file = self.inner.open(name)?;
        Ok(Box::new(FailingFile { file, name: name.to_owned(), disk: self.clone() }))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.check(Call::Create)?;
        let file = self.inner.create(name)?;
        self.plan().pages.remove(name);
        Ok(Box::new(FailingFile { file, name: name.to_owned(), disk: self.clone() }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check(Call::Remove)?;
        self.inner.remove(name)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.check(Call::SyncDirectory)?;
        self.inner.sync_directory()
    }

    fn check(&self, name: &str) -> io::Result<()> {
        self.inner.check(name)
    }
}

struct FailingFile {
    file: Box<dyn DiskFile>,
    name: String,
    disk: FailingDisk,
}

impl FailingFile {
    /// Remembers the content on disk of pages that are about to be written.
    fn dirty(&self, offset: u64, bytes: &[u8]) {
        let start = usize::try_from(offset).unwrap();
        let mut plan = self.disk.plan();
        let Pages { dirty, lost } = plan.pages.entry(self.name.clone()).or_default();
        for page in start / PAGE_BYTES..(start + bytes.len()).div_ceil(PAGE_BYTES) {
            let on_disk = lost.remove(&page);
            dirty.entry(page).or_insert_with(|| {
                on_disk.unwrap_or_else(|| {
                    let mut before = vec![0; PAGE_BYTES];
                    self.file.read_at((page * PAGE_BYTES) as u64, &mut before).unwrap();
                    before
                })
            });
        }
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.dirty(offset, bytes);
        self.file.write_at(offset, bytes)
    }
}

impl DiskFile for FailingFile {
    fn size(&self) -> io::Result<u64> {
        self.disk.check(Call::Size)?;
        self.file.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.check(Call::Read)?;
        self.file.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let grows = offset + bytes.len() as u64 > self.file.size()?;
        match self.disk.count(if grows { Call::Grow } else { Call::Overwrite }) {
            None => self.write(offset, bytes),
            Some(kind) => {
                if kind == FaultKind::ShortWrite {
                    self.write(offset, &bytes[..bytes.len() / 2])?;
                }
                Err(error(kind))
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let kind = self.disk.count(Call::Sync);
        {
            let mut plan = self.disk.plan();
            let Pages { dirty, lost } = plan.pages.entry(self.name.clone()).or_default();
            let written = std::mem::take(dirty);
            if kind.is_some() {
                lost.extend(written);
            }
        }
        kind.map_or_else(|| self.file.sync(), |kind| Err(error(kind)))
    }

    fn release_cache(&self) {
        self.file.release_cache();
    }
}
