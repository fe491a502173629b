//! The correlation id of a request: received with it, or new.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use oncebox_core::{Trace, Uid};
use oncebox_wire::header;

use super::api_error::ApiError;
use super::app::App;

/// A constant, so that the name is not parsed for every response.
pub(super) const CORR_ID: HeaderName = HeaderName::from_static(header::CORR_ID);

/// Correlates a request with its response, its message and the logs.
#[derive(Debug, Clone)]
pub(super) struct CorrId(HeaderValue);

impl CorrId {
    /// A new correlation id.
    pub(super) fn new(app: &App) -> Self {
        let text = app.corr_id().to_string();
        Self(HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("")))
    }

    /// The correlation id of the request, or a new one.
    pub(super) fn of(app: &App, headers: &HeaderMap) -> Result<Self, ApiError> {
        let Some(received) = headers.get(CORR_ID) else { return Ok(Self::new(app)) };
        let is_uuid = received.to_str().is_ok_and(|text| text.parse::<Uid>().is_ok());
        if !is_uuid {
            return Err(ApiError::schema("X-Corr-Id is not a UUID: send a UUID, or omit the header"));
        }
        Ok(Self(received.clone()))
    }

    pub(super) fn as_str(&self) -> &str {
        // It is always a UUID.
        self.0.to_str().unwrap_or_default()
    }

    /// The trace of messages that have no correlation id of their own.
    pub(super) fn trace(&self) -> Trace {
        Trace::default().with_correlation(self.as_str()).unwrap_or_default()
    }

    /// The value of the response header.
    pub(super) fn into_header(self) -> HeaderValue {
        self.0
    }
}
