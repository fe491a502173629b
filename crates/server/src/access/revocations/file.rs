//! A file of revocations, for a store that keeps nothing itself. It is replaced as a whole, under a lock: several servers
//! may use the same key file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use oncebox::store::Clock;
use oncebox_core::{Bound, Timestamp};
use oncebox_system::SystemClock;
use serde::{Deserialize, Serialize};

use super::{REVOCATIONS_MAX, Revocation, RevocationDetails, RevocationTarget, RevocationsError};

/// Larger files are damaged.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

pub(super) struct RevocationFile {
    path: PathBuf,
    clock: SystemClock,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    target: String,
    since_ms: u64,
    #[serde(flatten)]
    details: RevocationDetails,
}

/// Why the file could not be read or changed.
enum Problem {
    Io(io::Error),
    Damaged,
    Full(u64),
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl RevocationFile {
    pub(super) fn new(path: PathBuf, clock: SystemClock) -> Self {
        Self { path, clock }
    }

    /// Reads the revocations. Fails also if none could be written, so that this is known before it is needed.
    pub(super) async fn read(&self) -> Result<Vec<Revocation>, RevocationsError> {
        self.blocking(|path| {
            let _lock = locked(path)?;
            read(path)
        })
        .await
    }

    pub(super) async fn add(
        &self,
        target: RevocationTarget,
        mut details: RevocationDetails,
    ) -> Result<Revocation, RevocationsError> {
        let since = self.clock.now();
        self.blocking(move |path| {
            let _lock = locked(path)?;
            let mut revocations = read(path)?;
            if let Some(at) = revocations.iter().position(|known| known.target == target) {
                details.compromised |= revocations.swap_remove(at).details.compromised;
            }
            if revocations.len() >= REVOCATIONS_MAX as usize {
                return Err(Problem::Full(revocations.len() as u64));
            }
            let revocation = Revocation { target, details, since };
            revocations.push(revocation.clone());
            let entries: Vec<Entry> = revocations.into_iter().map(Entry::of).collect();
            let json = serde_json::to_vec(&entries).map_err(io::Error::other)?;
            replace(path, &json)?;
            Ok(revocation)
        })
        .await
    }

    /// Runs to its end also if nobody waits for it any more.
    async fn blocking<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Path) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, RevocationsError> {
        let path = self.path.clone();
        let ran = tokio::task::spawn_blocking(move || run(&path)).await;
        ran.map_err(io::Error::other).map_err(Problem::Io).flatten().map_err(|problem| {
            let problem = match problem {
                Problem::Io(error) => error.to_string(),
                Problem::Damaged => "is damaged".to_owned(),
                Problem::Full(used) => {
                    let bound = Bound::new("revocations", used, u64::from(REVOCATIONS_MAX));
                    return RevocationsError::Full(bound);
                }
            };
            RevocationsError::File { path: self.path.clone(), problem }
        })
    }
}

impl Entry {
    fn of(revocation: Revocation) -> Self {
        let Revocation { target, details, since } = revocation;
        Self { target: target.to_string(), since_ms: since.as_millis(), details }
    }

    fn into_revocation(self) -> Option<Revocation> {
        let Self { target, since_ms, details } = self;
        let since = Timestamp::from_millis(since_ms);
        Some(Revocation { target: RevocationTarget::parse(&target)?, details, since })
    }
}

/// The file next to a path, with another ending.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Excludes all other readers and writers until the file is dropped.
fn locked(path: &Path) -> io::Result<File> {
    let lock = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(beside(path, ".lock"))?;
    lock.lock()?;
    Ok(lock)
}

fn read(path: &Path) -> Result<Vec<Revocation>, Problem> {
    let bytes = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
        Ok(metadata) if metadata.len() > BYTES_MAX => return Err(Problem::Damaged),
        Ok(_) => fs::read(path)?,
    };
    let entries: Vec<Entry> = serde_json::from_slice(&bytes).map_err(|_| Problem::Damaged)?;
    entries.into_iter().map(|entry| entry.into_revocation().ok_or(Problem::Damaged)).collect()
}

/// Replaces the file, durably.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = beside(path, ".new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
