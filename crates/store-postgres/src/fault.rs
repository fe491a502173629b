//! What the database says, as our errors: never with what was bound to a statement.

use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;

use oncebox_core::{Error, Kind};

/// SQLSTATEs after which the same transaction may work: a deadlock, and a serialization failure.
const AGAIN: [&str; 2] = ["40P01", "40001"];
/// Somebody else holds what we would have to wait for.
const LOCKED: &str = "55P03";

/// What is asked for cannot be done by a server that only reads: it was demoted, or is a replica.
const READ_ONLY: &str = "25006";

/// Marks an error of a server that only reads, so that its connection is not used again.
#[derive(Debug)]
struct ReadOnly;

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server is read-only")
    }
}

impl std::error::Error for ReadOnly {}

/// What is said when the server only reads.
pub(crate) fn read_only() -> Error {
    let text = "the database is read-only (SQLSTATE 25006): it was demoted, or is a replica; the next call connects anew, so let the \
                address lead to the primary";
    Error::new(Kind::Unavailable, text).with_source(ReadOnly)
}

/// Whether the server behind a connection only reads. Another one may have taken its place, which only a new connection finds.
pub(crate) fn is_read_only(error: &Error) -> bool {
    error.source().is_some_and(<dyn std::error::Error>::is::<ReadOnly>)
}

/// Its SQLSTATE, if the database says it.
pub(crate) fn state(error: &sqlx::Error) -> Option<String> {
    error.as_database_error()?.code().map(Cow::into_owned)
}

/// Whether the same statements may simply be tried again.
pub(crate) fn is_collision(error: &sqlx::Error) -> bool {
    state(error).is_some_and(|state| AGAIN.contains(&state.as_str()))
}

/// Whether somebody else held what was needed for too long.
pub(crate) fn is_locked(error: &sqlx::Error) -> bool {
    state(error).is_some_and(|state| state == LOCKED)
}

/// What is said when the database was found down before anything was sent to it.
pub(crate) fn down() -> Error {
    Error::new(Kind::Unavailable, "the database does not answer; nothing was done: repeat the call later")
}

/// What is said when the database goes down while a call waits for its answer.
pub(crate) fn went_down() -> Error {
    Error::new(
        Kind::Unavailable,
        "the database does not answer, the outcome is unknown: repeat the call later",
    )
}

/// Whether a call failed because of its connection, and not by what the database said.
pub(crate) fn is_of_connection(error: &Error) -> bool {
    error.kind() == Kind::Unavailable
        && error.source().is_some_and(<dyn std::error::Error>::is::<sqlx::Error>)
}

/// What is said when somebody holds up a call that must not wait for it.
pub(crate) fn held_up() -> Error {
    Error::held_up(
        "a transaction of somebody else holds what is needed, and nothing happened: repeat the call",
    )
}

/// As an error of the port. The text of a database error may repeat values: only its code is told.
pub(crate) fn told(error: sqlx::Error) -> Error {
    if is_locked(&error) {
        return held_up();
    }
    let (kind, text) = match &error {
        sqlx::Error::Database(database) => {
            let code = database.code().unwrap_or_default();
            match code.get(..2).unwrap_or_default() {
                _ if code == READ_ONLY => return read_only(),
                // What was prepared is not there, or is there already: the session was another's in between.
                _ if matches!(&*code, "26000" | "42P05") => (
                    Kind::Unavailable,
                    format!("sessions are shared with others (SQLSTATE {code}): set `pooler=transaction`"),
                ),
                "42" | "3F" => (
                    Kind::Unavailable,
                    format!(
                        "the tables are not as they should be (SQLSTATE {code}): run `oncebox schema validate`"
                    ),
                ),
                "28" => (
                    Kind::Unavailable,
                    format!("the database does not let us in (SQLSTATE {code}): check user and password"),
                ),
                "3D" => (
                    Kind::Unavailable,
                    format!("the server has no such database (SQLSTATE {code}): make it, or name another"),
                ),
                "53" => (Kind::Unavailable, format!("the database has no room (SQLSTATE {code}): free some")),
                _ => (Kind::Unavailable, format!("the database refused (SQLSTATE {code}): try again later")),
            }
        }
        sqlx::Error::PoolTimedOut => (
            Kind::Unavailable,
            "no connection to the database became free in time: try again later".to_owned(),
        ),
        sqlx::Error::PoolClosed => (Kind::Closed, "the store is closed: open it again".to_owned()),
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
            (Kind::Corrupt, "a row of the store cannot be read: it was changed by hand".to_owned())
        }
        _ => (
            Kind::Unavailable,
            "the database cannot be reached, the outcome is unknown: repeat the call".to_owned(),
        ),
    };
    let told = Error::new(kind, text);
    match error {
        // What these say may hold values.
        sqlx::Error::Database(_) | sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => told,
        other => told.with_source(other),
    }
}
