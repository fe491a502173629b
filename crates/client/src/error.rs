//! Errors of calls. They contain neither payloads nor keys.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use oncebox_wire::{ErrorBody, ErrorCode};

type Source = Box<dyn StdError + Send + Sync>;

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientErrorKind {
    /// The call is invalid: fix it.
    Invalid,
    /// There is no connection to the server, or it was lost: retry later.
    Unreachable,
    /// There was no response in time; whether the server processed the request is unknown.
    TimedOut,
    /// The server returned an error: see [`ClientError::code`].
    ErrorResponse,
    /// The response cannot be decoded: the server is not an Oncebox server, or of a very different version.
    Malformed,
}

/// The error of a call; its text says what to do.
#[derive(Debug)]
pub struct ClientError(Box<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ClientErrorKind,
    text: String,
    status: Option<u16>,
    body: Option<ErrorBody>,
    retry_after: Option<Duration>,
    corr_id: Option<String>,
    /// Whether nothing of the request was sent.
    unsent: bool,
    source: Option<Source>,
}

impl ClientError {
    fn new(kind: ClientErrorKind, text: impl Into<String>) -> Self {
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
        Self::new(ClientErrorKind::Invalid, text)
    }

    pub(crate) fn malformed(text: impl Into<String>) -> Self {
        Self::new(ClientErrorKind::Malformed, text)
    }

    pub(crate) fn timed_out(after: Duration) -> Self {
        let seconds = after.as_secs_f64();
        Self::new(
            ClientErrorKind::TimedOut,
            format!(
                "no response within {seconds:.1} s: the server may have processed the request; check, or retry the call"
            ),
        )
    }

    pub(crate) fn unreachable(text: impl Into<String>, source: impl Into<Source>) -> Self {
        let mut error = Self::new(ClientErrorKind::Unreachable, text);
        error.0.source = Some(source.into());
        error
    }

    /// An error response; `body` is none if it could not be decoded.
    pub(crate) fn error_response(
        status: u16,
        body: Option<ErrorBody>,
        retry_after: Option<Duration>,
    ) -> Self {
        let text = match &body {
            Some(body) => body.message.clone(),
            None => format!(
                "status {status} without an error body: check whether this is an Oncebox server or a proxy"
            ),
        };
        let mut error = Self::new(ClientErrorKind::ErrorResponse, text);
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

    /// Adds the correlation id of the call, unless the server returned one.
    #[must_use]
    pub(crate) fn with_corr_id(mut self, corr_id: &str) -> Self {
        self.0.corr_id.get_or_insert_with(|| corr_id.to_owned());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ClientErrorKind {
        self.0.kind
    }

    /// The stable error code, if the server returned one.
    pub fn code(&self) -> Option<ErrorCode> {
        self.0.body.as_ref().map(|body| body.code)
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        self.0.status
    }

    /// Whether the same call may succeed later. Whether a retry is safe is a different question: see the crate
    /// documentation.
    pub fn is_retryable(&self) -> bool {
        match (self.0.kind, self.code(), self.0.status) {
            (ClientErrorKind::Unreachable | ClientErrorKind::TimedOut, ..) => true,
            (_, Some(code), _) => code.is_retryable(),
            (_, None, Some(status)) => matches!(status, 408 | 429 | 503),
            _ => false,
        }
    }

    /// The delay before a retry that the server requested (`Retry-After`).
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    /// The correlation id of the call, also in the server's log.
    pub fn corr_id(&self) -> Option<&str> {
        self.0.corr_id.as_deref()
    }

    /// The id of the message that has the idempotency key, if the error is `E_DUPLICATE`.
    pub fn msg_id(&self) -> Option<&str> {
        self.0.body.as_ref()?.msg_id.as_deref()
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl StdError for ClientError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_wire::{ErrorBody, ErrorCode};

    use super::ClientError;

    fn error_response(status: u16, code: Option<ErrorCode>) -> ClientError {
        let (message, corr_id) = ("why: do this".to_owned(), "c".to_owned());
        let body = code.map(|code| ErrorBody {
            code,
            message,
            corr_id,
            msg_id: None,
            duplicate: None,
            bound: None,
            reason: None,
            caveat: None,
        });
        ClientError::error_response(status, body, None)
    }

    #[test]
    fn the_code_decides_about_retries_or_else_the_status() {
        for (code, _, status) in ErrorCode::ALL {
            assert_eq!(error_response(status, Some(code)).is_retryable(), code.is_retryable(), "{code}");
        }
        for (status, retryable) in [(408, true), (429, true), (503, true), (500, false), (404, false)] {
            assert_eq!(error_response(status, None).is_retryable(), retryable, "{status}");
        }
        assert!(ClientError::timed_out(Duration::from_secs(1)).is_retryable());
        assert!(!ClientError::malformed("x").is_retryable());
    }

    #[test]
    fn the_servers_correlation_id_takes_precedence() {
        assert_eq!(error_response(400, Some(ErrorCode::Schema)).with_corr_id("mine").corr_id(), Some("c"));
        assert_eq!(error_response(400, None).with_corr_id("mine").corr_id(), Some("mine"));
    }
}
