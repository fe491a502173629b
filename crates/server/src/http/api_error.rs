//! Errors of the HTTP API.

use std::time::Duration;

use hyper::StatusCode;
use hyper::header::{ALLOW, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use oncebox::{Error, ErrorKind, health::Bound, message::Invalid};
use oncebox_wire::{ErrorBody, ErrorCode, Problem};

use super::response::{self, Response};
use super::view;

/// `Retry-After` of retryable errors for which the store suggests no time.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// An error response. The HTTP service renders it, because only that knows the correlation id of the request.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    status: u16,
    retry_after: Option<Duration>,
    /// The message that holds the idempotency key, and whether it has the same content.
    existing: Option<Box<(String, bool)>>,
    /// The bound that was reached.
    pub(crate) bound: Option<Bound>,
    /// The methods that the path allows.
    allow: Option<Box<str>>,
    /// Why the token is refused, and the caveat that refuses it.
    reason: Option<Box<(String, Option<String>)>>,
}

/// Format of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorFormat {
    Plain,
    /// RFC 9457.
    Problem,
}

impl ApiError {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        let retry_after = code.is_retryable().then_some(RETRY_AFTER_DEFAULT);
        Self {
            code,
            message: message.into(),
            status: code.status(),
            retry_after,
            existing: None,
            bound: None,
            allow: None,
            reason: None,
        }
    }

    /// The request is invalid.
    pub(crate) fn schema(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Schema, message)
    }

    /// Changes the HTTP status, but not the code.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status.as_u16();
        self
    }

    /// Sets the methods that the path allows.
    pub(super) fn allow(mut self, methods: String) -> Self {
        self.allow = Some(methods.into());
        self
    }

    /// Sets the bound that was reached.
    pub(super) fn with_bound(mut self, bound: Bound) -> Self {
        self.bound = Some(bound);
        self
    }

    /// Sets when to retry.
    pub(super) fn after(mut self, retry_after: Duration) -> Self {
        self.retry_after = Some(retry_after);
        self
    }

    /// Sets why the token is refused, and the caveat that refuses it.
    pub(super) fn with_reason(mut self, reason: &str, caveat: Option<&str>) -> Self {
        self.reason = Some(Box::new((reason.to_owned(), caveat.map(str::to_owned))));
        self
    }

    /// Why the token is refused.
    pub(super) fn reason(&self) -> Option<String> {
        self.reason.as_ref().map(|reason| reason.0.clone())
    }

    /// Sets the message that holds the idempotency key.
    pub(crate) fn existing(mut self, msg_id: String, same: bool) -> Self {
        self.existing = Some(Box::new((msg_id, same)));
        self
    }

    /// The HTTP status.
    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The id of the message that holds the idempotency key.
    pub(super) fn existing_msg_id(&self) -> Option<String> {
        self.existing.as_ref().map(|existing| existing.0.clone())
    }

    /// Replaces the field names of the library with those of the request. Each pair is the name that a message matches
    /// with and its replacement.
    pub(super) fn with_field_names(mut self, names: &[(&str, &str)]) -> Self {
        let matches = |(known, _): &&(&str, &str)| {
            self.message.strip_prefix(known).is_some_and(|rest| rest.starts_with(' '))
        };
        if let Some((known, replacement)) = names.iter().find(matches) {
            self.message.replace_range(..known.len(), replacement);
        }
        self
    }

    /// Returns the body and its content type.
    pub(super) fn body(&self, corr_id: &str, format: ErrorFormat) -> (Vec<u8>, &'static str) {
        let body = ErrorBody {
            code: self.code,
            message: self.message.clone(),
            corr_id: corr_id.to_owned(),
            msg_id: self.existing_msg_id(),
            duplicate: self.existing.as_ref().map(|existing| existing.1),
            bound: self.bound.map(view::bound),
            reason: self.reason(),
            caveat: self.reason.as_ref().and_then(|reason| reason.1.clone()),
        };
        let (json, content_type) = match format {
            ErrorFormat::Plain => (serde_json::to_vec(&body), "application/json"),
            ErrorFormat::Problem => {
                let (title, detail) = (self.code.to_string(), self.message.clone());
                let problem =
                    Problem { r#type: "about:blank".to_owned(), title, status: self.status, detail, body };
                (serde_json::to_vec(&problem), "application/problem+json")
            }
        };
        let mut json = json.unwrap_or_default();
        json.push(b'\n');
        (json, content_type)
    }

    /// Renders the response.
    pub(super) fn render(&self, corr_id: &str, format: ErrorFormat) -> Response {
        let (json, content_type) = self.body(corr_id, format);
        let mut response = response::whole(json, content_type);
        *response.status_mut() = self.status();
        if let Some(Ok(allow)) = self.allow.as_deref().map(HeaderValue::from_str) {
            response.headers_mut().insert(ALLOW, allow);
        }
        if self.code == ErrorCode::CapAuth {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(after) = self.retry_after {
            // Whole seconds, at least one.
            let seconds = after.as_millis().div_ceil(1_000).max(1);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        response
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Saturated => ErrorCode::Saturated,
            ErrorKind::Invalid => ErrorCode::Schema,
            ErrorKind::Unsupported => ErrorCode::Unsupported,
            ErrorKind::Corrupt => ErrorCode::Corrupt,
            _ => ErrorCode::Unavailable,
        };
        let mut api_error = Self::new(code, error.to_string());
        api_error.retry_after = error.retry_after().or(api_error.retry_after);
        api_error.bound = error.bound();
        api_error
    }
}

impl From<Invalid> for ApiError {
    fn from(invalid: Invalid) -> Self {
        Self::schema(invalid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hyper::header::RETRY_AFTER;
    use oncebox::{Error, ErrorKind, health::Bound};
    use oncebox_wire::ErrorCode;

    use super::{ApiError, ErrorFormat};

    /// Responses to errors of the store.
    /// Holds: MBX-C-10.
    #[test]
    fn every_error_kind_has_a_code_and_a_retry_time() {
        for (kind, code, status, retry_after) in [
            (ErrorKind::Invalid, ErrorCode::Schema, 400, None),
            (ErrorKind::Unsupported, ErrorCode::Unsupported, 501, None),
            (ErrorKind::Corrupt, ErrorCode::Corrupt, 503, None),
            (ErrorKind::Unavailable, ErrorCode::Unavailable, 503, Some("1")),
            (ErrorKind::Closed, ErrorCode::Unavailable, 503, Some("1")),
            (ErrorKind::Saturated, ErrorCode::Saturated, 429, Some("1")),
        ] {
            let error = ApiError::from(Error::new(kind, "why"));
            let response = error.render("", ErrorFormat::Plain);
            let actual = response.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap());
            assert_eq!(
                (error.code, response.status().as_u16(), actual),
                (code, status, retry_after),
                "{kind:?}"
            );
        }
    }

    /// Whole seconds, rounded up, at least one.
    #[test]
    fn the_store_determines_retry_after() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (59_500, "60")] {
            let error = Error::saturated(Duration::from_millis(millis), Bound::new(Bound::KEYS, 1, 1));
            let response = ApiError::from(error).render("", ErrorFormat::Plain);
            assert_eq!(response.headers()[RETRY_AFTER], seconds, "{millis}");
        }
    }
}
