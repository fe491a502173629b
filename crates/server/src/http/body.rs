//! Bodies: bounded before they are read, read in bounded time, and never more of them at once than fit.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use oncebox_wire::Code;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use super::app::App;
use super::json;
use super::refusal::Refusal;

/// Bodies up to this size are bounded by the number of connections alone.
const SMALL_BYTES: usize = 64 * 1024;
/// The unit that room is counted in.
const UNIT_BYTES: usize = 1024;

/// What is refused is taken in up to this size, and for this long.
const DISCARD_BYTES_MAX: usize = 32 * 1024 * 1024;
const DISCARD_TIME_MAX: Duration = Duration::from_secs(2);
/// What most answers fit in.
const ANSWER_BYTES: usize = 256;

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Bytes,
}

/// How large a body may be, and how long it may take to come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) bytes_max: usize,
    pub(crate) within: Duration,
}

impl Limit {
    fn exceeded(self) -> Refusal {
        let text = format!("the body is larger than {} bytes: send less at a time", self.bytes_max);
        Refusal::new(Code::FrameTooLarge, text)
    }
}

/// The room that a large body takes.
pub(super) type Permit = Option<OwnedSemaphorePermit>;

/// Room for bodies that are being worked on.
pub(crate) struct Room {
    units: Arc<Semaphore>,
}

impl Room {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let units = (bytes_max / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self { units: Arc::new(Semaphore::new(units)) }
    }

    /// Reads a body. Its room is taken until the permit is dropped.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        limit: Limit,
    ) -> Result<(Bytes, Permit), Refusal> {
        let announced =
            headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let expected = announced.unwrap_or(limit.bytes_max);
        if expected > limit.bytes_max {
            return Err(discard(headers, body, limit.exceeded()).await);
        }
        let permit = match self.reserve(expected) {
            Ok(permit) => permit,
            Err(refusal) => return Err(discard(headers, body, refusal).await),
        };
        let until = Instant::now() + limit.within;
        let mut body = body;
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(data) = next(&mut body, until).await? {
            if first.len() + rest.len() + data.len() > limit.bytes_max {
                return Err(discard(headers, body, limit.exceeded()).await);
            }
            // Most bodies come in one piece, and need not be copied.
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

    fn reserve(&self, bytes: usize) -> Result<Permit, Refusal> {
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        let permit = self.units.clone().try_acquire_many_owned(units);
        permit.map(Some).map_err(|_| {
            Refusal::new(
                Code::Saturated,
                "too many large requests at once: repeat it later, or send less at a time",
            )
        })
    }
}

/// Takes in what a client sends that will be refused, as far as that is little: one that is cut off while it writes would not
/// see why. One that asks first, by `Expect: 100-continue`, has not begun.
pub(super) async fn discard(headers: &HeaderMap, mut body: Body, refusal: Refusal) -> Refusal {
    let announced =
        headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if headers.contains_key(EXPECT) || announced.is_some_and(|bytes| bytes > DISCARD_BYTES_MAX) {
        return refusal;
    }
    let until = Instant::now() + DISCARD_TIME_MAX;
    let mut discarded = 0;
    while discarded <= DISCARD_BYTES_MAX
        && let Ok(Some(data)) = next(&mut body, until).await
    {
        discarded += data.len();
    }
    refusal
}

/// The next piece of a body that has data; none at its end.
async fn next(body: &mut Body, until: Instant) -> Result<Option<Bytes>, Refusal> {
    loop {
        let frame = timeout_at(until, body.frame()).await;
        let frame = frame.map_err(|_| {
            Refusal::new(
                Code::Timeout,
                "the body did not arrive in time: send it faster, or in smaller parts",
            )
        })?;
        let Some(frame) = frame else { return Ok(None) };
        let frame = frame.map_err(|_| Refusal::schema("the body broke off: send it again"))?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
}

/// Refuses a body that is compressed, say: it would be stored as it came.
fn expect_plain(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let text = "the body has a content coding, and this server knows none: send it as it is, without `content-encoding`";
    Err(Refusal::schema(text).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE))
}

/// What the request says that its body is. Only what no web page can send unasked is taken.
pub(super) fn kind(headers: &HeaderMap) -> Result<Kind, Refusal> {
    expect_plain(headers)?;
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let name = content_type.split(';').next().unwrap_or_default().trim();
    match name {
        _ if name.eq_ignore_ascii_case("application/json") => Ok(Kind::Json),
        _ if name.eq_ignore_ascii_case("application/octet-stream") => Ok(Kind::Bytes),
        _ => Err(Refusal::schema("the body is not announced as JSON: set `content-type: application/json`")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
    }
}

/// Refuses what is not JSON.
pub(super) fn expect_json(headers: &HeaderMap) -> Result<(), Refusal> {
    match kind(headers)? {
        Kind::Json => Ok(()),
        Kind::Bytes => Err(Refusal::schema("this request takes JSON: set `content-type: application/json`")
            .with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)),
    }
}

/// Reads JSON, and nothing else.
pub(super) async fn read_json<T: DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: Limit,
) -> Result<(T, Permit), Refusal> {
    let (bytes, permit) = read_unparsed(app, headers, body, limit).await?;
    Ok((json::parse(&bytes)?, permit))
}

/// The same, before it is parsed.
pub(super) async fn read_unparsed(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: Limit,
) -> Result<(Bytes, Permit), Refusal> {
    if let Err(refusal) = expect_json(headers) {
        return Err(discard(headers, body, refusal).await);
    }
    app.room.read(headers, body, limit).await
}

/// The same, where no body at all, or `null`, means the default.
pub(super) async fn read_optional_json<T: DeserializeOwned + Default>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
    limit: Limit,
) -> Result<T, Refusal> {
    let (bytes, _permit) = app.room.read(headers, body, limit).await?;
    if bytes.is_empty() {
        return Ok(T::default());
    }
    expect_json(headers)?;
    let parsed: Option<T> = json::parse(&bytes)?;
    Ok(parsed.unwrap_or_default())
}

/// Answers with JSON.
pub(super) fn answer(value: &impl Serialize) -> Result<Response, Refusal> {
    answer_as(StatusCode::OK, value)
}

/// Answers with JSON and a status.
pub(super) fn answer_as(status: StatusCode, value: &impl Serialize) -> Result<Response, Refusal> {
    let mut json = Vec::with_capacity(ANSWER_BYTES);
    let written = serde_json::to_writer(&mut json, value).map(|()| json);
    let mut response = answer_written(written.map_err(Into::into))?;
    *response.status_mut() = status;
    Ok(response)
}

/// Answers with JSON that is written already.
pub(super) fn answer_written(json: std::io::Result<Vec<u8>>) -> Result<Response, Refusal> {
    let mut json = json.map_err(|_| Refusal::new(Code::Unavailable, "the answer could not be written"))?;
    // For those who read it on a terminal.
    json.push(b'\n');
    let mut response = Response::new(Body::from(json));
    response.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    Ok(response)
}

#[cfg(test)]
mod tests {
    use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
    use axum::http::{HeaderMap, HeaderValue};

    use super::{Kind, kind};

    fn headers(content_type: &'static str, codings: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        for coding in codings {
            headers.append(CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        headers
    }

    /// Holds: MBX-G-4.
    #[test]
    fn a_body_with_a_content_coding_is_refused() {
        for content_type in ["application/json", "application/octet-stream"] {
            for coded in [&["gzip"][..], &["identity, gzip"], &["identity", "br"], &[""]] {
                let refusal = kind(&headers(content_type, coded)).unwrap_err();
                assert!(refusal.message.contains("content-encoding"), "{coded:?}: {}", refusal.message);
            }
        }
        assert_eq!(kind(&headers("application/json", &["Identity"])).ok(), Some(Kind::Json));
        assert_eq!(kind(&headers("application/octet-stream", &[])).ok(), Some(Kind::Bytes));
    }
}
