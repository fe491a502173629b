//! Refusals: what every door answers when it does not do what it was asked.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use oncebox::{Bound, Error, Invalid, Kind};
use oncebox_wire::{Code, ErrorBody, Problem};

use super::view;

/// When to come again, where nothing tells.
const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(1);

/// Why a request is not carried out. The gate writes it out, for it knows the request's correlation id.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) message: String,
    status: u16,
    retry_after: Option<Duration>,
    /// The message that has the idempotency key, and whether it is the same.
    taken: Option<(String, bool)>,
    /// The bound that is reached.
    pub(crate) bound: Option<Bound>,
}

/// How a refusal is shaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Plain,
    /// As in RFC 9457.
    Problem,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        let retry_after = code.is_retryable().then_some(RETRY_AFTER_DEFAULT);
        Self { code, message: message.into(), status: code.status(), retry_after, taken: None, bound: None }
    }

    /// The request is wrong.
    pub(crate) fn schema(message: impl Into<String>) -> Self {
        Self::new(Code::Schema, message)
    }

    /// The same code under another status of HTTP.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status.as_u16();
        self
    }

    /// The idempotency key belongs to this message.
    pub(crate) fn taken(mut self, msg_id: String, same: bool) -> Self {
        self.taken = Some((msg_id, same));
        self
    }

    /// The message that has the idempotency key.
    pub(super) fn taken_by(&self) -> Option<String> {
        self.taken.as_ref().map(|(msg_id, _)| msg_id.clone())
    }

    /// Names fields as the caller wrote them: the library has names of its own for some. A pair is what a message begins with,
    /// and what it begins with then.
    pub(super) fn in_terms_of(mut self, terms: &[(&str, &str)]) -> Self {
        let begins = |(known, _): &&(&str, &str)| {
            self.message.strip_prefix(known).is_some_and(|rest| rest.starts_with(' '))
        };
        if let Some((known, written)) = terms.iter().find(begins) {
            self.message.replace_range(..known.len(), written);
        }
        self
    }

    /// Its body, and the type of that.
    pub(super) fn body(&self, corr_id: &str, shape: Shape) -> (Vec<u8>, &'static str) {
        let body = ErrorBody {
            code: self.code,
            message: self.message.clone(),
            corr_id: corr_id.to_owned(),
            msg_id: self.taken_by(),
            duplicate: self.taken.as_ref().map(|(_, same)| *same),
            bound: self.bound.map(view::bound),
        };
        let (json, content_type) = match shape {
            Shape::Plain => (serde_json::to_vec(&body), "application/json"),
            Shape::Problem => {
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

    /// Writes it out.
    pub(super) fn render(&self, corr_id: &str, shape: Shape) -> Response {
        let (json, content_type) = self.body(corr_id, shape);
        let mut response = Response::new(Body::from(json));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if let Some(after) = self.retry_after {
            // Whole seconds, and never "at once".
            let seconds = after.as_millis().div_ceil(1_000).max(1);
            response
                .headers_mut()
                .insert(RETRY_AFTER, HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX)));
        }
        response
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            Kind::Saturated => Code::Saturated,
            Kind::Invalid => Code::Schema,
            Kind::Unsupported => Code::Unsupported,
            Kind::Corrupt => Code::Corrupt,
            _ => Code::Unavailable,
        };
        let mut refusal = Self::new(code, error.to_string());
        refusal.retry_after = error.retry_after().or(refusal.retry_after);
        refusal.bound = error.bound();
        refusal
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::schema(invalid.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use axum::http::header::RETRY_AFTER;
    use oncebox::{Bound, Error, Kind};
    use oncebox_wire::Code;

    use super::{Refusal, Shape};

    /// What a failure of the store is answered with.
    /// Holds: MBX-C-10.
    #[test]
    fn every_kind_of_error_has_its_code_and_says_when_to_come_again() {
        for (kind, code, status, retry_after) in [
            (Kind::Invalid, Code::Schema, 400, None),
            (Kind::Unsupported, Code::Unsupported, 501, None),
            (Kind::Corrupt, Code::Corrupt, 503, None),
            (Kind::Unavailable, Code::Unavailable, 503, Some("1")),
            (Kind::Closed, Code::Unavailable, 503, Some("1")),
            (Kind::Saturated, Code::Saturated, 429, Some("1")),
        ] {
            let refusal = Refusal::from(Error::new(kind, "why"));
            let answer = refusal.render("", Shape::Plain);
            let told = answer.headers().get(RETRY_AFTER).map(|after| after.to_str().unwrap());
            assert_eq!(
                (refusal.code, answer.status().as_u16(), told),
                (code, status, retry_after),
                "{kind:?}"
            );
        }
    }

    /// Whole seconds, never too early and never at once.
    #[test]
    fn the_store_decides_when_to_come_again() {
        for (millis, seconds) in [(0, "1"), (1, "1"), (1_000, "1"), (1_001, "2"), (59_500, "60")] {
            let error = Error::saturated(Duration::from_millis(millis), Bound::new(Bound::KEYS, 1, 1));
            let answer = Refusal::from(error).render("", Shape::Plain);
            assert_eq!(answer.headers()[RETRY_AFTER], seconds, "{millis}");
        }
    }
}
