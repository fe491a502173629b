//! The allocator thread: creates, wipes and removes segment files for the syncer.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use crate::disk::{Disk, DiskFile};
use crate::file_names::segment_name;
use crate::segment::FreeSegment;
use crate::segment_supply::Origin;
use crate::shared::Shared;

/// A task for the allocator thread.
pub(crate) enum AllocatorTask {
    Create,
    Wipe(FreeSegment),
    Remove(FreeSegment),
    ReleaseCache(Arc<dyn DiskFile>),
}

/// The result of [`AllocatorTask::Create`] or [`AllocatorTask::Wipe`].
pub(crate) struct PreparedSegment {
    pub(crate) origin: Origin,
    pub(crate) segment: io::Result<FreeSegment>,
}

/// Runs the allocator thread until the syncer drops its end of either channel.
pub(crate) fn run_allocator(
    mut allocator: SegmentAllocator,
    tasks: &Receiver<AllocatorTask>,
    prepared: &Sender<PreparedSegment>,
    shared: &Shared,
) {
    for task in tasks {
        let (origin, segment) = match task {
            AllocatorTask::Create => (Origin::New, allocator.create()),
            AllocatorTask::Wipe(segment) => (Origin::Wiped, SegmentAllocator::zero(segment)),
            AllocatorTask::Remove(segment) => {
                // A file that could not be removed is found and removed at the next open.
                let _ = allocator.remove(&segment);
                continue;
            }
            AllocatorTask::ReleaseCache(file) => {
                file.release_cache();
                continue;
            }
        };
        if prepared.send(PreparedSegment { origin, segment }).is_err() {
            return;
        }
        shared.lock().poll_allocator = true;
        shared.work.notify_all();
    }
}

/// Free segments, and the error that prevented more.
pub(crate) type Allocation = (VecDeque<FreeSegment>, Option<io::Error>);

/// Creates, wipes and removes segment files. Everything here may be slow; no caller waits for it.
pub(crate) struct SegmentAllocator {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) segment_bytes: u64,
    pub(crate) name_next: u64,
}

impl SegmentAllocator {
    /// Creates a free segment. After a failure the partial file is removed.
    pub(crate) fn create(&mut self) -> io::Result<FreeSegment> {
        let name = segment_name(self.name_next);
        self.name_next += 1;
        let created = self.disk.create(&name).and_then(|file| {
            let segment =
                Self::zero(FreeSegment { name: name.clone(), file: file.into(), size: self.segment_bytes })?;
            self.disk.sync_directory()?;
            Ok(segment)
        });
        created.inspect_err(|_| {
            let _ = self.disk.remove(&name);
        })
    }

    /// Returns `count` free segments, made from `obsolete` files first. If the disk refuses a new file, returns fewer
    /// together with the error: a store must also open on a full disk.
    pub(crate) fn allocate(
        &mut self,
        obsolete: &mut Vec<FreeSegment>,
        count: usize,
    ) -> io::Result<Allocation> {
        let fits = |segment: &mut FreeSegment| segment.size == self.segment_bytes;
        let found: Vec<_> = obsolete.extract_if(.., fits).collect();
        let mut found = found.into_iter();
        let mut free = found.by_ref().take(count).map(Self::zero).collect::<io::Result<VecDeque<_>>>()?;
        obsolete.extend(found);
        // The process that created a file may have ended before its name was durable.
        self.disk.sync_directory()?;
        while free.len() < count {
            match self.create() {
                Ok(segment) => free.push_back(segment),
                Err(error) => return Ok((free, Some(error))),
            }
        }
        Ok((free, None))
    }

    /// Overwrites a segment with zeros, durably.
    pub(crate) fn zero(segment: FreeSegment) -> io::Result<FreeSegment> {
        // With small writes this took a third of all processor time; large ones let the kernel use large pages.
        static CHUNK: [u8; 1 << 20] = [0; 1 << 20];
        let mut offset = 0;
        while offset < segment.size {
            let length = usize::try_from(segment.size - offset).unwrap_or(usize::MAX).min(CHUNK.len());
            segment.file.write_at(offset, &CHUNK[..length])?;
            offset += length as u64;
        }
        segment.file.sync()?;
        Ok(segment)
    }

    /// Removes a segment's file.
    pub(crate) fn remove(&self, segment: &FreeSegment) -> io::Result<()> {
        self.disk.remove(&segment.name)?;
        self.disk.sync_directory()
    }
}
