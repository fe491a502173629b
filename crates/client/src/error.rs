//! Why a call did not succeed. Names neither payloads nor keys.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use oncebox_wire::{Code, ErrorBody};

type Source = Box<dyn StdError + Send + Sync>;

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The call cannot be made as it is: fix it.
    Invalid,
    /// There is no connection, or it broke: repeat the call later.
    Unreachable,
    /// No answer came in time; whether the server acted is unknown.
    TimedOut,
    /// The server answered with an error: [`Error::code`] tells which.
    Refused,
    /// The answer cannot be read: is it a server of Oncebox, of about this version?
    Malformed,
}

/// Why a call did not succeed; its text says what to do.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: Kind,
    text: String,
    status: Option<u16>,
    body: Option<ErrorBody>,
    retry_after: Option<Duration>,
    corr_id: Option<String>,
    /// Nothing of the request left this machine.
    unsent: bool,
    source: Option<Source>,
}

impl Error {
    fn new(kind: Kind, text: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            text: text.into(),
            status: None,
            body: None,
            retry_after: None,
            corr_id: None,
            unsent: false,
            source: None,
        }))
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, text)
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::new(Kind::Malformed, text)
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        let seconds = after.as_secs_f64();
        Self::new(
            Kind::TimedOut,
            format!("no answer within {seconds:.1} s: the server may have acted, so look or repeat the call"),
        )
    }

    pub(crate) fn unreachable(text: impl Into<String>, source: impl Into<Source>) -> Self {
        let mut error = Self::new(Kind::Unreachable, text);
        error.0.source = Some(source.into());
        error
    }

    /// An answer that is an error; `body` if it has the shape of one.
    pub(crate) fn refused(status: u16, body: Option<ErrorBody>, retry_after: Option<Duration>) -> Self {
        let text = match &body {
            Some(body) => body.message.clone(),
            None => format!(
                "status {status} without a reason: is this a server of Oncebox, or a proxy before it?"
            ),
        };
        let mut error = Self::new(Kind::Refused, text);
        error.0.status = Some(status);
        error.0.corr_id = body.as_ref().map(|body| body.corr_id.clone()).filter(|id| !id.is_empty());
        error.0.body = body;
        error.0.retry_after = retry_after;
        error
    }

    #[must_use]
    pub(crate) fn unsent(mut self) -> Self {
        self.0.unsent = true;
        self
    }

    pub(crate) fn is_unsent(&self) -> bool {
        self.0.unsent
    }

    /// With the id of the call, unless the server told one.
    #[must_use]
    pub(crate) fn of_call(mut self, corr_id: &str) -> Self {
        self.0.corr_id.get_or_insert_with(|| corr_id.to_owned());
        self
    }

    /// What kind of failure it is.
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// The server's stable code, if it gave one.
    pub fn code(&self) -> Option<Code> {
        self.0.body.as_ref().map(|body| body.code)
    }

    /// The status of HTTP, if there was an answer.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Whether the same call may succeed later. Whether it is safe to repeat is another question: see the crate's table.
    pub fn is_retryable(&self) -> bool {
        match (self.0.kind, self.code(), self.0.status) {
            (Kind::Unreachable | Kind::TimedOut, ..) => true,
            (_, Some(code), _) => code.is_retryable(),
            (_, None, Some(status)) => matches!(status, 408 | 429 | 503),
            _ => false,
        }
    }

    /// When to repeat the call, as the server wishes it.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// What to look for in the server's log.
    pub fn corr_id(&self) -> Option<&str> {
        self.0.corr_id.as_deref()
    }

    /// The message that has the idempotency key, if the key is taken.
    pub fn msg_id(&self) -> Option<&str> {
        self.0.body.as_ref()?.msg_id.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_wire::{Code, ErrorBody};

    use super::Error;

    fn refused(status: u16, code: Option<Code>) -> Error {
        let (message, corr_id) = ("why: do this".to_owned(), "c".to_owned());
        let body =
            code.map(|code| ErrorBody { code, message, corr_id, msg_id: None, duplicate: None, bound: None });
        Error::refused(status, body, None)
    }

    #[test]
    fn the_code_decides_and_without_one_the_status() {
        for (code, _, status) in Code::ALL {
            assert_eq!(refused(status, Some(code)).is_retryable(), code.is_retryable(), "{code}");
        }
        for (status, retryable) in [(408, true), (429, true), (503, true), (500, false), (404, false)] {
            assert_eq!(refused(status, None).is_retryable(), retryable, "{status}");
        }
        assert!(Error::timed_out(Duration::from_secs(1)).is_retryable());
        assert!(!Error::malformed("x").is_retryable());
    }

    #[test]
    fn the_servers_correlation_wins_over_the_calls() {
        assert_eq!(refused(400, Some(Code::Schema)).of_call("mine").corr_id(), Some("c"));
        assert_eq!(refused(400, None).of_call("mine").corr_id(), Some("mine"));
    }
}
