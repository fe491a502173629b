//! Request bodies: bounded in size, in time and in their total memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, StatusCode};
use oncebox_wire::ErrorCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::api_error::ApiError;
use super::json;
use super::response::{self, Response};
use crate::config_handle::ActiveConfig;
use crate::net::RequestBody;

/// Bodies up to this size are bounded by the number of connections alone.
const SMALL_BYTES: usize = 64 * 1024;
/// Unit in which the budget is counted.
const UNIT_BYTES: usize = 1024;

/// The body of a rejected request is discarded up to this size and for this long.
const DISCARD_BYTES_MAX: usize = 32 * 1024 * 1024;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);
/// Buffer size that most responses fit in.
const RESPONSE_BYTES: usize = 256;

/// Content type of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyKind {
    Json,
    Bytes,
}

/// Limits of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    bytes_max: usize,
    timeout: Duration,
}

impl ActiveConfig {
    /// Limit of the body of a request about a single message.
    pub(super) fn single_body_limit(&self) -> Limit {
        let http = &self.config.http;
        Limit { bytes_max: http.body_bytes_max, timeout: http.body_timeout }
    }

    /// Limit of the body of a batch request.
    pub(super) fn batch_body_limit(&self) -> Limit {
        let http = &self.config.http;
        Limit { bytes_max: http.batch_bytes_max, timeout: http.body_timeout }
    }
}

impl Limit {
    fn exceeded(self) -> ApiError {
        let text = format!("the body is larger than {} bytes: send smaller requests", self.bytes_max);
        ApiError::new(ErrorCode::FrameTooLarge, text)
    }
}

/// The part of the budget that a large body uses; `None` for small bodies.
pub(super) type Permit = Option<OwnedSemaphorePermit>;

/// Memory budget of large bodies that are being processed.
pub(crate) struct BodyBudget {
    units: Arc<Semaphore>,
}

impl BodyBudget {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)) }
    }

    /// Reads a body. Its part of the budget is used until the permit is dropped.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: &mut RequestBody,
        limit: Limit,
    ) -> Result<(Bytes, Permit), ApiError> {
        let declared =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let expected = declared.unwrap_or(limit.bytes_max);
        if expected > limit.bytes_max {
            return Err(discard(headers, body, limit.exceeded()).await);
        }
        let permit = match self.reserve(expected) {
            Ok(permit) => permit,
            Err(error) => return Err(discard(headers, body, error).await),
        };
        let deadline = Instant::now() + limit.timeout;
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(data) = next_chunk(body, deadline).await? {
            if first.len() + rest.len() + data.len() > limit.bytes_max {
                return Err(discard(headers, body, limit.exceeded()).await);
            }
            // Most bodies arrive in one chunk and need not be copied.
            if first.is_empty() && rest.is_empty() {
                first = data;
                continue;
            }
            if rest.is_empty() {
                rest.reserve(expected);
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&data);
        }
        Ok((if rest.is_empty() { first } else { rest.freeze() }, permit))
    }

    /// Reads and parses JSON.
    pub(super) async fn read_json<T: DeserializeOwned>(
        &self,
        headers: &HeaderMap,
        body: &mut RequestBody,
        limit: Limit,
    ) -> Result<(T, Permit), ApiError> {
        let (bytes, permit) = self.read_unparsed(headers, body, limit).await?;
        Ok((json::parse(&bytes)?, permit))
    }

    /// Reads JSON without parsing it.
    pub(super) async fn read_unparsed(
        &self,
        headers: &HeaderMap,
        body: &mut RequestBody,
        limit: Limit,
    ) -> Result<(Bytes, Permit), ApiError> {
        if let Err(error) = expect_json(headers) {
            return Err(discard(headers, body, error).await);
        }
        self.read(headers, body, limit).await
    }

    /// Reads and parses JSON; no body and `null` yield the default.
    pub(super) async fn read_optional_json<T: DeserializeOwned + Default>(
        &self,
        headers: &HeaderMap,
        body: &mut RequestBody,
        limit: Limit,
    ) -> Result<T, ApiError> {
        let (bytes, _permit) = self.read(headers, body, limit).await?;
        if bytes.is_empty() {
            return Ok(T::default());
        }
        expect_json(headers)?;
        let parsed: Option<T> = json::parse(&bytes)?;
        Ok(parsed.unwrap_or_default())
    }

    fn reserve(&self, bytes: usize) -> Result<Permit, ApiError> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let permit = self.units.clone().try_acquire_many_owned(units);
        permit.map(Some).map_err(|_| {
            ApiError::new(
                ErrorCode::Saturated,
                "too many large requests at once: retry later, or send smaller requests",
            )
        })
    }
}

/// Reads and discards the rest of a rejected body, within limits: a client that is cut off while it writes would not
/// see the response. A client that sends `Expect: 100-continue` has not begun to write.
pub(super) async fn discard(headers: &HeaderMap, body: &mut RequestBody, error: ApiError) -> ApiError {
    let declared = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if headers.contains_key(EXPECT) || declared.is_some_and(|bytes| bytes > DISCARD_BYTES_MAX) {
        return error;
    }
    let deadline = Instant::now() + DISCARD_TIME_MAX;
    let mut discarded = 0;
    while discarded <= DISCARD_BYTES_MAX
        && let Ok(Some(data)) = next_chunk(body, deadline).await
    {
        discarded += data.len();
    }
    error
}

/// Returns the next chunk of data; `None` at the end of the body.
async fn next_chunk(body: &mut RequestBody, deadline: Instant) -> Result<Option<Bytes>, ApiError> {
    loop {
        let frame = timeout_at(deadline, body.frame()).await;
        let frame = frame.map_err(|_| {
            ApiError::new(
                ErrorCode::Timeout,
                "the body did not arrive in time: send it faster, or send smaller requests",
            )
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| ApiError::schema("the body is incomplete: send the request again"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Rejects a compressed or otherwise encoded body, which would be stored as it is.
fn reject_encoded(headers: &HeaderMap) -> Result<(), ApiError> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let text = "encoded bodies are not supported: send the body without `content-encoding`";
    Err(ApiError::schema(text).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// The content type of a request. Only types that no web page can send without a preflight request are accepted.
pub(super) fn kind(headers: &HeaderMap) -> Result<BodyKind, ApiError> {
    reject_encoded(headers)?;
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = content_type.split(';').next().unwrap_or_default().trim();
    match name {
        _ if name.eq_ignore_ascii_case("application/json") => Ok(BodyKind::Json),
        _ if name.eq_ignore_ascii_case("application/octet-stream") => Ok(BodyKind::Bytes),
        _ => Err(ApiError::schema("unsupported content type: set `content-type: application/json`")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
    }
}

/// Rejects everything but JSON.
pub(super) fn expect_json(headers: &HeaderMap) -> Result<(), ApiError> {
    match kind(headers)? {
        BodyKind::Json => Ok(()),
        BodyKind::Bytes => {
            Err(ApiError::schema("this endpoint accepts JSON only: set `content-type: application/json`")
                .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
        }
    }
}

/// Responds with JSON.
pub(super) fn json(value: &impl Serialize) -> Result<Response, ApiError> {
    json_with_status(StatusCode::OK, value)
}

/// Responds with JSON and a status.
pub(super) fn json_with_status(status: StatusCode, value: &impl Serialize) -> Result<Response, ApiError> {
    let mut json = Vec::with_capacity(RESPONSE_BYTES);
    let written = serde_json::to_writer(&mut json, value).map(|()| json);
    let mut response = serialized_json(written.map_err(Into::into))?;
    *response.status_mut() = status;
    Ok(response)
}

/// Responds with JSON that is serialized already.
pub(super) fn serialized_json(json: std::io::Result<Vec<u8>>) -> Result<Response, ApiError> {
    let mut json =
        json.map_err(|_| ApiError::new(ErrorCode::Unavailable, "the response could not be serialized"))?;
    // For readability on a terminal.
    json.push(b'\n');
    Ok(response::whole(json, "application/json"))
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderValue};

    use super::{BodyKind, kind};

    fn headers(content_type: &'static str, codings: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        for coding in codings {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        headers
    }

    /// Holds: MBX-G-4.
    #[test]
    fn a_body_with_a_content_encoding_is_rejected() {
        for content_type in ["application/json", "application/octet-stream"] {
            for coded in [&["gzip"][..], &["identity, gzip"], &["identity", "br"], &[""]] {
                let error = kind(&headers(content_type, coded)).unwrap_err();
                assert!(error.message.contains("content-encoding"), "{coded:?}: {}", error.message);
            }
        }
        assert_eq!(kind(&headers("application/json", &["Identity"])).ok(), Some(BodyKind::Json));
        assert_eq!(kind(&headers("application/octet-stream", &[])).ok(), Some(BodyKind::Bytes));
    }
}
