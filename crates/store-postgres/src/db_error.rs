//! Converts database errors into errors of the port, without the values that were bound to the statement.

use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;

use oncebox_core::{Error, ErrorKind};
use oncebox_store_rows::StepFailure;

/// SQLSTATEs after which the same transaction may succeed: deadlock and serialization failure.
const RETRYABLE: [&str; 2] = ["40P01", "40001"];
/// SQLSTATE of a lock timeout.
const LOCK_NOT_AVAILABLE: &str = "55P03";

/// SQLSTATE of a write on a read-only server: it was demoted, or is a replica.
const READ_ONLY: &str = "25006";

/// Marks an error of a read-only server, so that its connection is not used again.
#[derive(Debug)]
struct ReadOnly;

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server is read-only")
    }
}

impl std::error::Error for ReadOnly {}

/// The error for a read-only server.
pub(crate) fn read_only() -> Error {
    let text = "the database is read-only (SQLSTATE 25006): it was demoted, or is a replica; the next call reconnects, make sure \
                that the address leads to the primary";
    Error::new(ErrorKind::Unavailable, text).with_source(ReadOnly)
}

/// Whether the server of a connection is read-only. Another server may have replaced it, which only a new connection
/// reaches.
pub(crate) fn is_read_only(error: &Error) -> bool {
    error.source().is_some_and(<dyn std::error::Error>::is::<ReadOnly>)
}

/// The SQLSTATE, if the database reported one.
pub(crate) fn sqlstate(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Cow::into_owned)
}

/// Whether the same statements may simply be retried.
pub(crate) fn is_conflict(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| RETRYABLE.contains(&state.as_str()))
}

/// Whether a lock timeout expired.
pub(crate) fn is_lock_timeout(error: &sqlx::Error) -> bool {
    sqlstate(error).is_some_and(|state| state == LOCK_NOT_AVAILABLE)
}

/// The error for a call that was not sent because the database is down.
pub(crate) fn down() -> Error {
    Error::new(ErrorKind::Unavailable, "the database does not answer; nothing was done, retry later")
}

/// The error for a call that was waiting for its answer when the database went down.
pub(crate) fn went_down() -> Error {
    Error::new(ErrorKind::Unavailable, "the database does not answer; the outcome is unknown, retry later")
}

/// Whether a call failed because of its connection, and not with an error of the database.
pub(crate) fn is_connection_error(error: &Error) -> bool {
    error.kind() == ErrorKind::Unavailable
        && error.source().is_some_and(<dyn std::error::Error>::is::<sqlx::Error>)
}

/// The error for a call that fails fast and is blocked by another transaction.
pub(crate) fn blocked() -> Error {
    StepFailure::LockTimeout.into()
}

/// Why a transaction of the slow path did not take effect.
pub(crate) fn step_failure(error: sqlx::Error) -> StepFailure {
    if is_lock_timeout(&error) {
        StepFailure::LockTimeout
    } else if is_conflict(&error) {
        StepFailure::Conflict
    } else {
        StepFailure::Failed(into_error(error))
    }
}

/// Converts to an error of the port. The text of a database error may contain values, so only its code is included.
pub(crate) fn into_error(error: sqlx::Error) -> Error {
    if is_lock_timeout(&error) {
        return blocked();
    }
    let (kind, text) = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            match code.get(..2).unwrap_or_default() {
                _ if code == READ_ONLY => return read_only(),
                // A prepared statement is missing or exists already: another client used the session in between.
                _ if matches!(&*code, "26000" | "42P05") => (
                    ErrorKind::Unavailable,
                    format!(
                        "sessions are shared with other clients (SQLSTATE {code}): set `pooler=transaction`"
                    ),
                ),
                "42" | "3F" => (
                    ErrorKind::Unavailable,
                    format!("schema mismatch (SQLSTATE {code}): run `oncebox schema validate`"),
                ),
                "28" => (
                    ErrorKind::Unavailable,
                    format!("authentication failed (SQLSTATE {code}): check user and password"),
                ),
                "3D" => (
                    ErrorKind::Unavailable,
                    format!("the database does not exist (SQLSTATE {code}): create it, or use another one"),
                ),
                "53" => (
                    ErrorKind::Unavailable,
                    format!(
                        "the database is out of resources (SQLSTATE {code}): free disk space, memory or connections"
                    ),
                ),
                _ => (
                    ErrorKind::Unavailable,
                    format!("the database rejected the statement (SQLSTATE {code}): retry later"),
                ),
            }
        }
        sqlx::Error::PoolTimedOut => (
            ErrorKind::Unavailable,
            "timed out waiting for a free database connection: retry later".to_owned(),
        ),
        sqlx::Error::PoolClosed => (ErrorKind::Closed, "the store is closed: open it again".to_owned()),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            (ErrorKind::Corrupt, "cannot decode a row of the store: it was changed by hand".to_owned())
        }
        _ => (
            ErrorKind::Unavailable,
            "cannot reach the database; the outcome is unknown, retry the call".to_owned(),
        ),
    };
    let converted = Error::new(kind, text);
    match error {
        // The texts of these errors may contain values.
        sqlx::Error::Database(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => converted,
        other => converted.with_source(other),
    }
}
