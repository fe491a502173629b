//! Failures of the machinery: few kinds, each telling the caller what to do next.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::port::Bound;

/// What the caller of a failed operation can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The outcome is unknown or the store is out of reach: repeat the same call later.
    Unavailable,
    /// The store is full and nothing was taken in: slow down, and repeat the same call later.
    Saturated,
    /// The call itself is wrong: fix it, do not repeat it.
    Invalid,
    /// This store cannot do it: choose another store.
    Unsupported,
    /// Stored data is damaged: stop and call a human.
    Corrupt,
    /// The store has been closed: open it again.
    Closed,
}

impl Kind {
    /// The stable code that every door shows for this kind.
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

/// A failure of the machinery. Expected refusals (a duplicate, a lost lease) are values, never errors. Clones share what is
/// below: one failure can be told to everybody whom it concerns.
#[derive(Debug, Clone)]
pub struct Error {
    kind: Kind,
    message: String,
    retry_after: Option<Duration>,
    bound: Option<Bound>,
    held_up: bool,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error of `kind`; `message` is lower case, has no full stop and says what to do next.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, bound: None, held_up: false, source: None }
    }

    /// The store is full by this bound; it expects room again after `retry_after`.
    pub fn saturated(retry_after: Duration, bound: Bound) -> Self {
        let Bound { name, used, limit, .. } = bound;
        // No sender can do anything about a full disk.
        let advice = if name == Bound::DISK_BYTES { "free space on its disk" } else { "slow down" };
        let message = format!(
            "the store is full ({name}: {used} of {limit}) and nothing was taken in: {advice}, and repeat the call later"
        );
        Self { retry_after: Some(retry_after), bound: Some(bound), ..Self::new(Kind::Saturated, message) }
    }

    /// Somebody else holds what the call needs, and it does not wait for that. Nothing happened that a repeat would not
    /// answer the same.
    pub fn held_up(message: impl Into<String>) -> Self {
        Self { held_up: true, ..Self::new(Kind::Unavailable, message) }
    }

    /// Whether it was made by [`Self::held_up`].
    pub fn is_held_up(&self) -> bool {
        self.held_up
    }

    /// Adds the failure below this one.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(Arc::from(source.into()));
        self
    }

    /// What the caller can do.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, Kind::Unavailable | Kind::Saturated)
    }

    /// When to repeat the call, if the store said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// The bound that left no room, if the store said so.
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

/// A value that cannot be built. Names the field, the limit and the given size, never the value itself.
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
    #[error("holds a NUL character: remove it")]
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

    /// Any other fault of `field`; `problem` continues the sentence "`field` …".
    pub fn new(field: &'static str, problem: &'static str) -> Self {
        Self { field, problem: Problem::Other(problem) }
    }

    /// The field that is wrong.
    pub fn field(&self) -> &'static str {
        self.field
    }
}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::new(Kind::Invalid, invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;
    use std::time::Duration;

    use super::{Error, Invalid, Kind};
    use crate::port::Bound;

    #[test]
    fn only_the_unavailable_and_the_full_are_worth_a_repeat() {
        let kinds = [
            Kind::Unavailable,
            Kind::Saturated,
            Kind::Invalid,
            Kind::Unsupported,
            Kind::Corrupt,
            Kind::Closed,
        ];
        let retryable = kinds.map(|kind| Error::new(kind, "text").is_retryable());
        assert_eq!(retryable, [true, true, false, false, false, false]);
        let bound = Bound::new(Bound::KEYS, 5, 5);
        let full = Error::saturated(Duration::from_secs(1), bound);
        assert_eq!((full.retry_after(), full.bound()), (Some(Duration::from_secs(1)), Some(bound)));
        assert!(full.to_string().contains("keys: 5 of 5"), "{full}");
        let mut codes = kinds.map(Kind::code).to_vec();
        codes.dedup();
        assert_eq!(codes.len(), kinds.len());
    }

    #[test]
    fn an_error_says_what_is_wrong_and_keeps_what_is_below_it() {
        let error = Error::from(Invalid::new("owner", "is missing")).with_source("below");
        assert_eq!((error.kind(), error.to_string().as_str()), (Kind::Invalid, "owner is missing"));
        assert_eq!(error.source().map(ToString::to_string).as_deref(), Some("below"));
        assert_eq!(error.clone().source().map(ToString::to_string).as_deref(), Some("below"));
    }
}
