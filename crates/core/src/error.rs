//! Errors of the store: few kinds, each with a clear action for the caller.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::bound::Bound;

/// What the caller of a failed operation can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The outcome is unknown or the store cannot be reached: repeat the same call later.
    Unavailable,
    /// A bound is reached and nothing was done: slow down, and repeat the same call later.
    Saturated,
    /// The call itself is wrong: fix it, do not repeat it.
    Invalid,
    /// This store does not support the call: choose another store.
    Unsupported,
    /// Stored data is damaged: stop, and involve an operator.
    Corrupt,
    /// The store has been closed: open it again.
    Closed,
}

impl ErrorKind {
    /// The stable error code of this kind, the same in every API.
    pub fn code(self) -> &'static str {
        match self {
            Self::Unavailable => "E_UNAVAILABLE",
            Self::Saturated => "E_SATURATED",
            Self::Invalid => "E_SCHEMA",
            Self::Unsupported => "E_UNSUPPORTED",
            Self::Corrupt => "E_CORRUPT",
            Self::Closed => "E_CLOSED",
        }
    }
}

/// A failure of a store. Expected refusals (a duplicate, a lost lease) are outcomes, never errors. Clones share the
/// source, so one failure can be returned to all callers that it affects.
#[derive(Debug, Clone)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    retry_after: Option<Duration>,
    bound: Option<Bound>,
    blocked: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is lower case, has no full stop and says what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, bound: None, blocked: false, source: None }
    }

    /// The bound is reached and nothing was done; the same call may succeed after `retry_after`.
    pub fn saturated(retry_after: Duration, bound: Bound) -> Self {
        let Bound { name, used, limit, .. } = bound;
        let (problem, remedy) = (bound.problem(), bound.remedy());
        let numbers = match name {
            Bound::PAUSED => String::new(),
            _ => format!(" ({name}: {used} of {limit})"),
        };
        let message = format!("{problem}{numbers}: repeat the call later; {remedy}");
        Self {
            retry_after: Some(retry_after),
            bound: Some(bound),
            ..Self::new(ErrorKind::Saturated, message)
        }
    }

    /// Another transaction holds a lock that the call needs, and the call does not wait for it. The call can be
    /// repeated: whatever took effect has the same outcome again.
    pub fn blocked(message: impl Into<String>) -> Self {
        Self { blocked: true, ..Self::new(ErrorKind::Unavailable, message) }
    }

    /// Whether it was created by [`Self::blocked`].
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Sets the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, ErrorKind::Unavailable | ErrorKind::Saturated)
    }

    /// When to repeat the call, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The bound that is reached, if known.
    pub fn bound(&self) -> Option<Bound> {
        self.bound
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

/// A value that is out of bounds. Names the field, the limit and the given size, never the value itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {problem}")]
pub struct Invalid {
    field: &'static str,
    problem: Problem,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Problem {
    #[error("is empty: give at least one character")]
    Empty,
    #[error("is {given} {unit} long, the limit is {limit}")]
    TooLong { limit: usize, given: usize, unit: &'static str },
    #[error("has {given} items, the limit is {limit}: split it")]
    TooMany { limit: usize, given: usize },
    #[error("contains a NUL character: remove it")]
    Nul,
    #[error("{0}")]
    Other(&'static str),
}

impl Invalid {
    pub(crate) fn empty(field: &'static str) -> Self {
        Self { field, problem: Problem::Empty }
    }

    pub(crate) fn too_long(field: &'static str, unit: &'static str, limit: usize, given: usize) -> Self {
        Self { field, problem: Problem::TooLong { limit, given, unit } }
    }

    pub(crate) fn too_many(field: &'static str, limit: usize, given: usize) -> Self {
        Self { field, problem: Problem::TooMany { limit, given } }
    }

    pub(crate) fn nul(field: &'static str) -> Self {
        Self { field, problem: Problem::Nul }
    }

    /// Any other problem of `field`; `problem` continues the sentence "`field` …".
    pub fn new(field: &'static str, problem: &'static str) -> Self {
        Self { field, problem: Problem::Other(problem) }
    }

    /// The invalid field.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::new(ErrorKind::Invalid, invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use super::{Error, ErrorKind, Invalid};
    use crate::bound::Bound;

    #[test]
    fn only_unavailable_and_saturated_errors_are_retryable() {
        let kinds = [
            ErrorKind::Unavailable,
            ErrorKind::Saturated,
            ErrorKind::Invalid,
            ErrorKind::Unsupported,
            ErrorKind::Corrupt,
            ErrorKind::Closed,
        ];
        let retryable = kinds.map(|kind| Error::new(kind, "text").is_retryable());
        assert_eq!(retryable, [true, true, false, false, false, false]);
        let bound = Bound::new(Bound::KEYS, 5, 5);
        let full = Error::saturated(Duration::from_secs(1), bound);
        assert_eq!((full.retry_after(), full.bound()), (Some(Duration::from_secs(1)), Some(bound)));
        let (full, bound) = (full.to_string(), "keys: 5 of 5");
        assert!(full.contains(bound) && full.contains("`keys_max`"), "{full}");
        let mut codes = kinds.map(ErrorKind::code).to_vec();
        codes.dedup();
        assert_eq!(codes.len(), kinds.len());
    }

    #[test]
    fn an_error_has_a_message_and_keeps_its_source() {
        let error = Error::from(Invalid::new("owner", "is missing")).with_source("below");
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, "owner is missing"));
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("below"));
        assert_eq!(error.clone().source().map(ToString::to_string).as_deref(), Some("below"));
    }
}
