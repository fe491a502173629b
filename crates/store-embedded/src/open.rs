//! Opening: recover what is there, begin a segment, start the threads.

use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use oncebox_core::{Bell, Error, Invalid, Kind, Timestamp};
use oncebox_system::{SystemClock, SystemRng, uptime};

use crate::disk::{Disk, RealDisk};
use crate::engine::{Engine, Group, Opening, Recovering};
use crate::gathering::Gathering;
use crate::identity::{self, boot_id, store_id};
use crate::journal::Journal;
use crate::lock::DirectoryLock;
use crate::manifest::Manifest;
use crate::options::Options;
use crate::preparer::{Preparer, prepare};
use crate::private;
use crate::recovery::{Cut, failed, recover};
use crate::segment::Segment;
use crate::shared::Shared;
use crate::store::EmbeddedStore;
use crate::syncer::{BLANKS, Syncer};
use crate::trouble::{Trouble, log_trouble};

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if it is missing. Only one opener at a time.
    ///
    /// A directory that is neither a store nor empty is [`Kind::Invalid`], and stays as it is; `lost+found` and names that begin with
    /// a dot do not count. Files beside those of a store are left alone.
    ///
    /// Only the owner of the directory can enter it and read the store's files, whatever the umask is: where others could, that is
    /// changed and logged. One that others can write is [`Kind::Invalid`], and stays as it is. A store of another format version is
    /// [`Kind::Unsupported`].
    pub fn open(path: &Path, options: &Options) -> Result<Self, Error> {
        let failing = |error| failed(&format!("opening {}", path.display()), error);
        let disk = RealDisk::open(path).map_err(failing)?;
        let lock = DirectoryLock::take(path)?;
        identity::check(&disk)?;
        private::refuse_shared(path)?;
        // From here on it is a store's: before, nothing in it may change.
        if private::tighten(path).map_err(failing)? {
            let place = disk.place();
            tracing::warn!(
                store = options.name.as_deref().unwrap_or(&place),
                "others could read the store in {place}: now only its owner can"
            );
        }
        DirectoryLock::sign(path);
        Self::open_locked(Arc::new(disk), options, Some(lock))
    }

    /// Opens the store on any disk. Nothing keeps a second opener away.
    pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Self, Error> {
        Self::open_locked(disk, options, None)
    }

    fn open_locked(
        disk: Arc<dyn Disk>,
        options: &Options,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, Error> {
        if !(64 << 10..=16 << 20).contains(&options.segment_bytes) {
            return Err(Invalid::new("segment size", "must be from 64 KiB to 16 MiB").into());
        }
        let name = options.name.clone().unwrap_or_else(|| format!("embedded:{}", disk.place()).into());
        let store = store_id(&*disk)?;
        let mut recovering = Recovering::new(options.capacity);
        let found = recover(&*disk, &store, &mut |group| recovering.replay(group))?;
        let epoch = found.epoch.max(recovering.boot.epoch) + 1;
        let fence_floor = Engine::fence_floor(epoch).ok_or_else(|| {
            Error::new(
                Kind::Unsupported,
                "the store was opened 16 million times: move what it holds to a new one",
            )
        })?;
        let clock = options.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::start(found.time)));
        check_clock(clock.now(), found.time, options.accept_clock)?;
        let boot_id = options.boot_id.clone().unwrap_or_else(boot_id);
        let opening = Opening { epoch, fence_floor, recorded: found.time, boot_id };
        let mut engine = Engine::new(recovering, opening, clock, Box::new(SystemRng::default()));

        let mut journal = Journal::new(store, epoch, found.lsn_next, found.generation_next);
        let mut preparer =
            Preparer { disk, segment_bytes: options.segment_bytes, name_next: found.name_next };
        // The header of the segment that comes next says that everything before it is durable.
        if let Some(last) = found.live.back() {
            last.harden(&store).map_err(|error| failed("syncing the journal", error))?;
        }
        journal.live = found.live;
        let manifest = Manifest::open(&*preparer.disk, store);
        journal.manifest = Some(manifest.map_err(|error| failed("opening the file `store`", error))?);
        let mut unneeded = found.unneeded;
        let blanks = preparer.find(&mut unneeded, BLANKS);
        let (blanks, refusal) = blanks.map_err(|error| failed("preparing the journal", error))?;
        journal.blanks = blanks;
        let trouble = refusal.as_ref().map(Trouble::of);
        begin(&mut journal, found.empty_newest, refusal)?;
        for unneeded in unneeded {
            journal.retire(unneeded);
        }
        // In every mode: fences of this opening must never come again, whatever is lost after it.
        let group = std::mem::take(&mut engine.group);
        let written = journal.append(&group.bytes.0, &group.homes, group.time).and_then(|()| journal.sync());
        written.map_err(|error| failed("writing the journal", error))?;
        log_opening(&name, found.cut.as_ref(), trouble.as_ref());
        let shared = Arc::new(Shared::new(name, engine, &journal, trouble));
        let threads = start(journal, preparer, &shared, options)?;
        Ok(Self {
            shared,
            bell: Bell::default(),
            durability: options.durability,
            reserve_bytes: options.segment_bytes,
            cut: found.cut,
            threads: Mutex::new(threads),
            lock: Mutex::new(lock),
        })
    }
}

/// Begins a segment or, if there is no file for one, goes on in the newest.
fn begin(
    journal: &mut Journal,
    empty_newest: Option<Segment>,
    refusal: Option<std::io::Error>,
) -> Result<(), Error> {
    match refusal {
        Some(refusal) if journal.blanks.is_empty() => {
            let on = journal.go_on(empty_newest).map_err(|error| failed("writing the journal", error))?;
            if on { Ok(()) } else { Err(failed("preparing the journal", refusal)) }
        }
        _ => {
            journal.rotate().map_err(|error| failed("writing the journal", error))?;
            // Until now the file `store` named it as the newest.
            if let Some(empty) = empty_newest {
                journal.retire(empty.into_blank());
            }
            Ok(())
        }
    }
}

/// One line for each thing that an operator has to know about an opening.
fn log_opening(store: &str, cut: Option<&Cut>, trouble: Option<&Trouble>) {
    if let Some(cut) = cut {
        tracing::warn!(
            store,
            segment = %cut.segment,
            offset = cut.offset,
            bytes = cut.bytes,
            frames = cut.frames,
            "{cut}"
        );
    }
    if trouble.is_some() {
        log_trouble(store, trouble);
    }
}

/// Refuses a clock that is more than a year ahead of what was recorded.
fn check_clock(now: Timestamp, recorded: Timestamp, accept: bool) -> Result<(), Error> {
    const AHEAD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
    if accept || recorded == Timestamp::EPOCH || now <= recorded.after(AHEAD_MAX) {
        return Ok(());
    }
    let text = format!(
        "the clock says {} ms since 1970, more than a year after the last moment that the store recorded, {} ms: \
         set the clock right, or accept it in the options",
        now.as_millis(),
        recorded.as_millis()
    );
    Err(Error::new(Kind::Unavailable, text))
}

fn start(
    journal: Journal,
    preparer: Preparer,
    shared: &Arc<Shared>,
    options: &Options,
) -> Result<Vec<JoinHandle<()>>, Error> {
    let (chore_sender, chores) = channel();
    let (done_sender, done) = channel();
    let syncer = Syncer {
        journal,
        shared: Arc::clone(shared),
        durability: options.durability,
        chores: chore_sender,
        done,
        coming: 0,
        wiping: 0,
        reclaiming: None,
        stalled: false,
        weighed: None,
        refused_at: shared.lock().trouble.is_some().then(uptime),
        disk: Arc::clone(&preparer.disk),
        segment_bytes: options.segment_bytes,
        spare: Group::default(),
        appended_at: uptime(),
        unsynced_since: None,
        gathering: Gathering::default(),
    };
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        spawned.map_err(|error| failed("starting a thread", error))
    };
    let told = Arc::clone(shared);
    Ok(vec![
        spawn("oncebox-prepare", Box::new(move || prepare(preparer, &chores, &done_sender, &told)))?,
        spawn("oncebox-sync", Box::new(move || syncer.run()))?,
    ])
}
