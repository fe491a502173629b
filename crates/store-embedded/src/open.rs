//! Opening a store: recovers the journal, starts a segment, starts the threads.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use oncebox_core::{Error, ErrorKind, Invalid, Notifier, Timestamp};
use oncebox_system::{SystemClock, SystemRng, uptime};

use crate::allocator::{SegmentAllocator, run_allocator};
use crate::disk::{Disk, RealDisk};
use crate::disk_error::{DiskError, log_disk_error};
use crate::engine::{Engine, Group, Opening, Recovering};
use crate::error::failed;
use crate::identity::{self, boot_id, store_id};
use crate::journal::Journal;
use crate::lock::DirectoryLock;
use crate::manifest::Manifest;
use crate::options::EmbeddedOptions;
use crate::permissions;
use crate::reclaim::Reclaimer;
use crate::recovery::{TornTail, recover};
use crate::segment::Segment;
use crate::segment_supply::{FREE_SEGMENTS, SegmentSupply};
use crate::shared::Shared;
use crate::store::EmbeddedStore;
use crate::sync_schedule::SyncSchedule;
use crate::syncer::Syncer;

impl EmbeddedStore {
    /// Opens the store in a directory, which is created if it is missing. Only one process can have it open at a time.
    ///
    /// Only the owner can enter the directory and read the store's files, whatever the umask is; access of others is
    /// removed and logged. Files that are not the store's are left alone.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the directory is neither empty nor a store (`lost+found` and names that start with a
    /// dot do not count), or if others than the owner can write to it; nothing is changed then.
    /// [`ErrorKind::Unsupported`] if the store has another format version. [`ErrorKind::Unavailable`] if another
    /// process has it open or the disk fails. [`ErrorKind::Corrupt`] if it is damaged.
    pub fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self, Error> {
        let failing = |error| failed(&format!("opening {}", path.display()), error);
        let disk = RealDisk::open(path).map_err(failing)?;
        let lock = DirectoryLock::acquire(path)?;
        identity::check(&disk)?;
        permissions::reject_writable_by_others(path)?;
        // The directory is a store's from here on: before, nothing in it may change.
        if permissions::restrict(path).map_err(failing)? {
            let location = disk.location();
            tracing::warn!(
                store = options.name.as_deref().unwrap_or(&location),
                "other users could read the store in {location}: access restricted to its owner"
            );
        }
        DirectoryLock::write_pid(path);
        Self::open_locked(Arc::new(disk), options, Some(lock))
    }

    /// Opens the store on any disk, without a lock against a second opener.
    pub fn open_on(disk: Arc<dyn Disk>, options: &EmbeddedOptions) -> Result<Self, Error> {
        Self::open_locked(disk, options, None)
    }

    fn open_locked(
        disk: Arc<dyn Disk>,
        options: &EmbeddedOptions,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, Error> {
        if !(64 << 10..=16 << 20).contains(&options.segment_bytes) {
            return Err(Invalid::new("segment size", "must be from 64 KiB to 16 MiB").into());
        }
        let name = options.name.clone().unwrap_or_else(|| format!("embedded:{}", disk.location()).into());
        let store = store_id(&*disk)?;
        let mut recovering = Recovering::new(options.capacity);
        let found = recover(&*disk, &store, &mut |group| recovering.replay(group))?;
        let epoch = found.epoch.max(recovering.boot.epoch).saturating_add(1);
        let fence_floor = Engine::fence_floor(epoch).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "the store was opened 16 million times, the maximum: move its messages to a new store",
            )
        })?;
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::start(found.time)));
        check_clock(clock.now(), found.time, options.accept_clock)?;
        let boot_id = options.boot_id.clone().unwrap_or_else(boot_id);
        let opening = Opening { epoch, fence_floor, recorded: found.time, boot_id };
        let mut engine = Engine::new(recovering, opening, clock, Box::new(SystemRng::default()));

        let mut journal = Journal::new(store, epoch, found.lsn_next, found.generation_next);
        let mut allocator =
            SegmentAllocator { disk, segment_bytes: options.segment_bytes, name_next: found.name_next };
        // The header of the next segment implies that everything before it is durable.
        if let Some(last) = found.live.back() {
            last.rewrite_unsynced(&store).map_err(|error| failed("syncing the journal", error))?;
        }
        journal.live = found.live;
        let manifest = Manifest::open(&*allocator.disk, store);
        journal.manifest = Some(manifest.map_err(|error| failed("opening the file `store`", error))?);
        let mut obsolete = found.obsolete;
        let free = allocator.allocate(&mut obsolete, FREE_SEGMENTS);
        let (free, io_error) = free.map_err(|error| failed("preparing the journal", error))?;
        journal.free = free;
        let disk_error = io_error.as_ref().map(DiskError::from_io);
        start_segment(&mut journal, found.empty_newest, io_error)?;
        for obsolete in obsolete {
            journal.retire(obsolete);
        }
        // In every durability mode: the fences of this epoch must never be reused, whatever is lost later.
        let group = std::mem::take(&mut engine.group);
        let written = journal.append(&group.bytes.0, &group.bases, group.time).and_then(|()| journal.sync());
        written.map_err(|error| failed("writing the journal", error))?;
        log_opening(&name, found.torn_tail.as_ref(), disk_error.as_ref());
        let shared = Arc::new(Shared::new(name, engine, &journal, disk_error));
        let threads = start(journal, allocator, &shared, options)?;
        Ok(Self {
            shared,
            notifier: Notifier::default(),
            durability: options.durability,
            reserve_bytes: options.segment_bytes,
            torn_tail: found.torn_tail,
            threads: Mutex::new(threads),
            lock: Mutex::new(lock),
        })
    }
}

/// Starts a segment or, if no file could be created for one, continues in the newest.
fn start_segment(
    journal: &mut Journal,
    empty_newest: Option<Segment>,
    io_error: Option<std::io::Error>,
) -> Result<(), Error> {
    match io_error {
        Some(io_error) if journal.free.is_empty() => {
            let resumed =
                journal.resume_newest(empty_newest).map_err(|error| failed("writing the journal", error))?;
            if resumed { Ok(()) } else { Err(failed("preparing the journal", io_error)) }
        }
        _ => {
            journal.rotate().map_err(|error| failed("writing the journal", error))?;
            // Until now the file `store` named the empty segment as the newest.
            if let Some(empty) = empty_newest {
                journal.retire(empty.into_free());
            }
            Ok(())
        }
    }
}

/// Logs a torn tail and a disk error, one line each.
fn log_opening(store: &str, torn_tail: Option<&TornTail>, disk_error: Option<&DiskError>) {
    if let Some(torn_tail) = torn_tail {
        tracing::warn!(
            store,
            segment = %torn_tail.segment,
            offset = torn_tail.offset,
            bytes = torn_tail.bytes,
            frames = torn_tail.frames,
            "{torn_tail}"
        );
    }
    if disk_error.is_some() {
        log_disk_error(store, disk_error);
    }
}

/// Rejects a clock that is more than a year ahead of the recorded time.
fn check_clock(now: Timestamp, recorded: Timestamp, accept: bool) -> Result<(), Error> {
    const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    if accept || recorded == Timestamp::EPOCH || now <= recorded.after(AHEAD_MAX) {
        return Ok(());
    }
    let text = format!(
        "the clock ({} ms since 1970) is more than a year ahead of the time that the store recorded last ({} ms): \
         correct the clock, or set `accept_clock` in the options",
        now.as_millis(),
        recorded.as_millis()
    );
    Err(Error::new(ErrorKind::Unavailable, text))
}

fn start(
    journal: Journal,
    allocator: SegmentAllocator,
    shared: &Arc<Shared>,
    options: &EmbeddedOptions,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let (task_sender, tasks) = channel();
    let (prepared_sender, prepared) = channel();
    let failed_at = shared.lock().space.disk_error().map(|_| uptime());
    let syncer = Syncer {
        shared: Arc::clone(shared),
        journal,
        disk: Arc::clone(&allocator.disk),
        tasks: task_sender,
        prepared,
        schedule: SyncSchedule::new(options.durability, uptime()),
        supply: SegmentSupply::new(options.segment_bytes, failed_at),
        reclaimer: Reclaimer::new(options.segment_bytes),
        spare: Group::default(),
    };
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        spawned.map_err(|error| failed("starting a thread", error))
    };
    let shared = Arc::clone(shared);
    Ok(vec![
        spawn(
            "oncebox-alloc",
            Box::new(move || run_allocator(allocator, &tasks, &prepared_sender, &shared)),
        )?,
        spawn("oncebox-sync", Box::new(move || syncer.run()))?,
    ])
}
