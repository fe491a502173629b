//! Revocations: records of the store, so that every server on it knows them, read again every few seconds. A store that
//! keeps nothing has a file instead.

mod file;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use oncebox::store::{Clock, Store};
use oncebox::{Error, ErrorKind};
use oncebox_core::{
    Bound, Direction, Invalid, PageSize, Record, RecordId, RecordKind, RecordOp, RecordOutcome, RecordValue,
    StoreExt, WhenFull, WriteCondition,
};
use oncebox_system::SystemClock;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::revoked::{Revocation, RevocationDetails, RevocationTarget, Revoked};
use file::RevocationFile;

/// Maximum number of revocations.
const REVOCATIONS_MAX: u32 = 10_000;
const KIND: RecordKind = RecordKind::new("revocation", REVOCATIONS_MAX, WhenFull::Refuse);
/// How often the revocations are read within the time that they may be old.
const READS: u32 = 3;
const STEP: Duration = Duration::from_secs(1);
/// How often a revocation is written again because another server has changed the same one.
const CONFLICTS_MAX: u32 = 10;

/// The revocations that this server knows, and where they are stored.
pub(crate) struct Revocations {
    place: Place,
    snapshot: watch::Sender<Snapshot>,
    /// Why they could not be read the last time.
    problem: Mutex<Option<String>>,
}

enum Place {
    Store(Arc<dyn Store>),
    File(RevocationFile),
}

/// The revocations, and when reading them began.
#[derive(Default)]
struct Snapshot {
    read_at: Option<Instant>,
    /// When this server last added a revocation. What was read before lacks it.
    changed_at: Option<Instant>,
    revoked: Arc<Revoked>,
}

/// Why revocations could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RevocationsError {
    #[error(transparent)]
    Store(#[from] Error),
    #[error("the file {} of revocations: {problem}", path.display())]
    File { path: PathBuf, problem: String },
    #[error(
        "there are {} revocations, which is the limit: rotate to a new key, which ends all tokens of the old one",
        .0.limit
    )]
    Full(Bound),
    #[error("the revocation {0} is damaged, or of a newer version: update this server")]
    Damaged(String),
}

/// The revocations could not be read for this long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld(pub(crate) Duration);

impl Revocations {
    /// Revocations in the records of a store.
    pub(crate) fn in_store(store: Arc<dyn Store>) -> Self {
        Self::of(Place::Store(store))
    }

    /// Revocations in a file.
    pub(crate) fn in_file(path: PathBuf) -> Self {
        Self::of(Place::File(RevocationFile::new(path, SystemClock::default())))
    }

    fn of(place: Place) -> Self {
        Self { place, snapshot: watch::Sender::default(), problem: Mutex::default() }
    }

    /// The revocations, unless they were read too long ago.
    pub(crate) fn current(&self, age_max: Duration) -> Result<Arc<Revoked>, TooOld> {
        let snapshot = self.snapshot.borrow();
        let age = snapshot.read_at.map_or(Duration::MAX, |at| at.elapsed());
        if age <= age_max { Ok(snapshot.revoked.clone()) } else { Err(TooOld(age)) }
    }

    /// Completes when the revocations have changed.
    pub(super) fn changes(&self) -> impl Future<Output = ()> + use<> {
        let mut changes = self.snapshot.subscribe();
        async move {
            // The sender lives as long as the server.
            let _ = changes.changed().await;
        }
    }

    /// Reads the revocations.
    pub(crate) async fn read(&self) -> Result<(), RevocationsError> {
        let read_at = Instant::now();
        let revoked: Revoked = match &self.place {
            Place::Store(store) => list(store.as_ref()).await?.into_iter().collect(),
            Place::File(file) => file.read().await?.into_iter().collect(),
        };
        self.snapshot.send_if_modified(|snapshot| {
            // The same moment is possible, because time is not continuous.
            if snapshot.read_at.max(snapshot.changed_at).is_some_and(|newer| newer > read_at) {
                return false;
            }
            let changed = !snapshot.revoked.is_same(&revoked);
            snapshot.read_at = Some(read_at);
            if changed {
                snapshot.revoked = Arc::new(revoked);
            }
            changed
        });
        Ok(())
    }

    /// Adds a revocation, or replaces that of the same target, unless that is stricter. It is effective on this server when
    /// this returns.
    pub(crate) async fn revoke(
        &self,
        target: RevocationTarget,
        details: RevocationDetails,
    ) -> Result<Revocation, RevocationsError> {
        let revocation = match &self.place {
            Place::Store(store) => write(store.as_ref(), &target, details).await?,
            Place::File(file) => file.add(target, details).await?,
        };
        // It was written, so it counts, even while nothing can be read. What is being read may be older.
        self.snapshot.send_modify(|snapshot| {
            let known = snapshot.revoked.list().into_iter().cloned();
            snapshot.revoked = Arc::new(known.chain([revocation.clone()]).collect());
            snapshot.changed_at = Some(Instant::now());
        });
        Ok(revocation)
    }

    /// Reads the revocations again and again, until the server stops.
    pub(crate) async fn run(&self, age_max: impl Fn() -> Duration, stopping: CancellationToken) {
        let mut failing = false;
        let reading = async {
            let mut last = Instant::now();
            loop {
                // In short steps: a reload can make the time shorter.
                sleep((age_max() / READS).min(STEP)).await;
                if last.elapsed() < age_max() / READS {
                    continue;
                }
                last = Instant::now();
                let read = self.read().await;
                *self.problem.lock().unwrap_or_else(PoisonError::into_inner) =
                    read.as_ref().err().map(ToString::to_string);
                match read {
                    Ok(()) => {
                        if std::mem::take(&mut failing) {
                            info!("revocations can be read again");
                        }
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut failing, true) {
                            warn!(
                                %error,
                                "cannot read the revocations: requests with tokens are soon rejected with 503"
                            );
                        }
                    }
                }
            }
        };
        stopping.run_until_cancelled(reading).await;
    }

    /// What an operator should know: that the revocations are too old, or nearly as many as possible.
    pub(crate) fn finding(&self, age_max: Duration) -> Option<String> {
        match self.current(age_max) {
            Err(TooOld(_)) => {
                let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let problem = problem.map(|problem| format!(" ({problem})")).unwrap_or_default();
                let seconds = age_max.as_secs();
                Some(format!(
                    "the revocations could not be read for {seconds} s{problem}: requests with tokens are rejected with 503"
                ))
            }
            Ok(revoked) if revoked.len() * 10 >= REVOCATIONS_MAX as usize * 9 => Some(format!(
                "{} of {REVOCATIONS_MAX} revocations are in use: rotate to a new key instead of revoking its tokens one by one",
                revoked.len()
            )),
            Ok(_) => None,
        }
    }
}

async fn list(store: &dyn Store) -> Result<Vec<Revocation>, RevocationsError> {
    let (mut revocations, mut after) = (Vec::new(), None);
    loop {
        let (direction, size) = (Direction::OldestFirst, PageSize::MAX);
        let op = RecordOp::List { kind: KIND, direction, after: after.take(), size };
        let RecordOutcome::Listed(records) = store.record(op).await? else {
            unreachable!("a listing is answered with a list")
        };
        after = records.last().map(|last| last.id.clone());
        let is_last = records.len() < size.get() as usize;
        for record in records {
            revocations.push(parse(&record)?);
        }
        if is_last {
            return Ok(revocations);
        }
    }
}

/// Writes a revocation; one that is there and stricter stays as strict.
async fn write(
    store: &dyn Store,
    target: &RevocationTarget,
    mut details: RevocationDetails,
) -> Result<Revocation, RevocationsError> {
    let id = RecordId::new(target.to_string()).map_err(Error::from)?;
    for _ in 0..CONFLICTS_MAX {
        let before = store.record(RecordOp::Get { kind: KIND, id: id.clone() }).await?;
        let condition = match before {
            RecordOutcome::Found(Some(record)) => {
                details.compromised |= parse(&record)?.details.compromised;
                WriteCondition::Version(record.version)
            }
            _ => WriteCondition::Absent,
        };
        let value = serde_json::to_vec(&details).map_err(|_| Invalid::new("revocation", "has no JSON form"));
        let value = value.and_then(RecordValue::new).map_err(Error::from)?;
        let put = RecordOp::Put { kind: KIND, id: id.clone(), value, condition, keep: None };
        match store.record(put).await? {
            RecordOutcome::Written(_) => {
                let since = SystemClock::default().now();
                return Ok(Revocation { target: target.clone(), details, since });
            }
            RecordOutcome::Full(bound) => return Err(RevocationsError::Full(bound)),
            _ => {}
        }
    }
    let text = "other servers keep changing this revocation: try again";
    Err(Error::new(ErrorKind::Unavailable, text).into())
}

fn parse(record: &Record) -> Result<Revocation, RevocationsError> {
    let target = RevocationTarget::parse(record.id.as_str());
    let details = serde_json::from_slice(record.value.as_bytes()).ok();
    let since = record.written_at;
    let parsed = target.zip(details).map(|(target, details)| Revocation { target, details, since });
    parsed.ok_or_else(|| RevocationsError::Damaged(record.id.as_str().to_owned()))
}

#[cfg(test)]
mod tests;
