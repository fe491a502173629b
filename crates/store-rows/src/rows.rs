//! What a database provides: transactions on the rows of messages, with locks or versions, and a clock.

use oncebox_core::{Error, ErrorKind, Snapshot, Timestamp};

use crate::body::Body;
use crate::decision::Write;
use crate::lane::LaneKey;
use crate::targets::Targets;
use crate::ticket::Ticket;

/// How long a call waits for rows that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// Briefly, about 50 ms: the call carries the requests of many callers.
    FailFast,
    /// As long as the database allows.
    Block,
}

/// How to treat due messages that another transaction has locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockedRows {
    /// Leave them to the other transaction.
    Skip,
    /// Wait for them, briefly.
    Wait,
}

/// Why a transaction did not take effect.
#[derive(Debug)]
pub enum StepFailure {
    /// A concurrent transaction made a conflicting change, and nothing was stored: the engine tries again.
    Conflict,
    /// Another transaction held a needed lock for longer than the call may wait. Nothing was stored.
    LockTimeout,
    /// Anything else. If the commit failed, its outcome may be unknown: the engine does not try again, because a repeat
    /// would report a new message as a duplicate of itself. The caller decides.
    Failed(Error),
}

impl From<Error> for StepFailure {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<StepFailure> for Error {
    /// Converts the failure of the last attempt.
    fn from(failure: StepFailure) -> Self {
        match failure {
            StepFailure::Failed(error) => error,
            StepFailure::LockTimeout => Self::blocked(
                "blocked by a lock held by another transaction; nothing was changed, retry the call",
            ),
            StepFailure::Conflict => Self::new(
                ErrorKind::Unavailable,
                "too many concurrent changes to the same messages: retry the call",
            ),
        }
    }
}

/// The messages to lock and load.
#[derive(Debug, Clone, Copy)]
pub enum Wanted<'a> {
    /// The messages that a call names.
    Named(&'a Targets<'a>),
    /// Messages with due timers: whose lease has reached its end, or which wait for a moment that has come (their due
    /// time, their retry, their expiry). At most `items_max`, those that have been due for longest first.
    Due {
        /// Maximum number of messages.
        items_max: u32,
        /// What to do about messages that another transaction has locked.
        locked: LockedRows,
    },
}

/// What a decision changed.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    /// The messages as they were loaded.
    pub loaded: &'a [Snapshot<Body>],
    /// The messages to write; each once.
    pub writes: &'a [Write],
    /// The time of the decision.
    pub now: Timestamp,
}

/// Access to the rows of messages, on one connection, in one transaction at a time.
///
/// # What a transaction guarantees
/// - **Isolation.** What `load` returned is still current when `commit` succeeds. A database with row locks locks the
///   rows when it loads them, in one order (messages by uid), so that two transactions rarely deadlock. A database with
///   one writer takes its write lock in `begin`. An optimistic one notes the version of every row that it loads, and
///   compares all of them when it stores or commits.
/// - **Absence** need not be locked. If a key or a uid was free when it was loaded and is taken when a message is added,
///   `store` or `commit` fails with [`StepFailure::Conflict`]: a unique index is enough.
/// - **Atomicity.** All writes take effect with `commit`, or none does. A transaction that is not committed has no effect:
///   it is rolled back when the next one begins or when the value is dropped, also if that happens because a call was
///   cancelled in the middle of a function.
/// - **Failures.** After any failure the engine does not continue the transaction; after a conflict it begins another
///   one. So a conflict may be reported by every function and whatever its cause (a changed version, a deadlock, a
///   serialization failure), as long as nothing was stored.
pub trait Rows: Send {
    /// How often a step is attempted that conflicts with concurrent transactions. With row locks conflicts are rare,
    /// and 8 is plenty; without locks, each caller that works on the same messages may cost an attempt.
    const ATTEMPTS_MAX: u32;

    /// Begins a transaction whose locks are waited for as `wait` says.
    fn begin(&mut self, wait: LockWait) -> impl Future<Output = Result<(), StepFailure>> + Send;

    /// Locks and loads messages with their current leases; each message once, in any order. Fails with
    /// [`StepFailure::LockTimeout`] if a lock is not released in time.
    fn load(
        &mut self,
        wanted: Wanted<'_>,
    ) -> impl Future<Output = Result<Vec<Snapshot<Body>>, StepFailure>> + Send;

    /// Reads the clock and reserves numbers. The engine calls it when everything is locked, so that the decision is made
    /// at the time when it can be, and not when waiting began.
    fn ticket(&mut self) -> impl Future<Output = Result<Ticket, StepFailure>> + Send;

    /// Counts the unfinished messages of lanes (those that are Processing), each up to the number beside it. Need not
    /// lock them: concurrent calls may exceed a limit on a lane by what they add meanwhile.
    fn count_unfinished(
        &mut self,
        lanes: &[(LaneKey, u64)],
    ) -> impl Future<Output = Result<Vec<u64>, StepFailure>> + Send;

    /// Writes the messages that a decision changed: each of [`Changes::writes`] becomes the stored state of its message,
    /// with its lease if it has one, and content of [`Body::Stored`] stays as it is. New content may be large: a database
    /// with a limit per statement divides the writes. An added message takes its key from
    /// a loaded message that still has it. Fails with [`StepFailure::Conflict`] if the key or the uid of an added
    /// message belongs to a message that was not loaded, or if a message gets a lease while another one with a current
    /// lease is in the same partition of the namespace.
    fn store(&mut self, changes: Changes<'_>) -> impl Future<Output = Result<(), StepFailure>> + Send;

    /// Commits. What was stored is durable when this returns.
    fn commit(&mut self) -> impl Future<Output = Result<(), StepFailure>> + Send;
}
