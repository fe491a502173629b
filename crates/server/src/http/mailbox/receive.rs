//! Receiving, and rounds of a remote worker.

use std::num::NonZeroU128;
use std::time::Duration;

use hyper::header::{ACCEPT, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use oncebox::ErrorKind;
use oncebox::mailbox::{self, Envelope, Receive, Settle, SettleOutcome};
use oncebox_core::{Fingerprint, Uid};
use oncebox_wire as wire;
use oncebox_wire::mailbox::{RecvRequest, RecvResponse, WorkResponse};
use tokio::time::Instant;

use super::super::api_error::ApiError;
use super::super::app::App;
use super::super::call::Call;
use super::super::openapi::{BodyErrors, Integrity};
use super::super::response::{self, Response};
use super::super::{body, json};
use super::{TAG, binary, convert, settle, write_json};
use crate::access::{AccessRefusal, Grant};
use crate::config_handle::ActiveConfig;

/// Receives messages.
///
/// Received messages are hidden from other receivers until they are acknowledged or their visibility timeout ends.
///
/// With `Accept: application/octet-stream`, a single message is delivered with its payload as the body and the other
/// fields as headers, or 204 if there is none; the header `X-Paused: true` says that the topic is paused.
#[utoipa::path(
    post,
    path = "/v1/recv",
    tag = TAG,
    request_body = RecvRequest,
    responses(
        (status = 200, description = "The messages that were ready; an empty list is not an error.", body = RecvResponse),
        Integrity,
        BodyErrors,
    ),
)]
pub(in crate::http) async fn recv(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (mut recv, _permit): (RecvRequest, _) = call.read_json().await?;
    let as_bytes = wants_bytes(&call.headers);
    if as_bytes && recv.max_messages.replace(1).is_some_and(|messages| messages != 1) {
        return Err(ApiError::schema(
            "with `accept: application/octet-stream`, a single message is delivered: omit max_messages",
        ));
    }
    let delegating = delegating(&call, &recv)?;
    let Round { received, .. } = settle_and_receive(&call, Vec::new(), &recv).await?;
    if received.envelopes.is_empty() && !received.damaged.is_empty() {
        return Err(convert::damaged(&received.damaged));
    }
    if as_bytes {
        let paused = received.paused;
        return match received.into_iter().next() {
            Some(envelope) => binary::response(envelope, delegating),
            None => Ok(no_message(paused)),
        };
    }
    body::serialized_json(write_json::received(&received, delegating))
}

/// One round of a remote worker: settles finished deliveries, then delivers the next messages, in one step.
#[utoipa::path(
    post,
    path = "/v1/work",
    tag = TAG,
    request_body = wire::mailbox::WorkRequest,
    responses((status = 200, description = "One outcome per delivery, and the messages that were ready.", body = WorkResponse), BodyErrors),
)]
pub(in crate::http) async fn work(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (bytes, _permit) = call.read_batch().await?;
    let Call { app, active, .. } = call;
    let (plan, recv) = match serde_json::from_slice::<wire::mailbox::WorkRequest>(&bytes) {
        Ok(work) => (settle::Plan::new(active, work.settle.into_iter().map(Ok))?, work.recv),
        Err(_) => parse_one_by_one(active, &bytes)?,
    };
    drop(bytes);
    let delegating = delegating(&call, &recv)?;
    let plan = plan.allowed(&call).await?;
    let Round { outcomes, received, refused } = settle_and_receive(&call, plan.settles, &recv).await?;
    let results = settle::results(app, plan.items, outcomes);
    body::serialized_json(write_json::worked(&results, &received, delegating, refused.as_ref()))
}

/// Parses a request that is invalid as a whole: if only single deliveries are invalid, the others are processed.
fn parse_one_by_one(active: &ActiveConfig, bytes: &[u8]) -> Result<(settle::Plan, RecvRequest), ApiError> {
    const RECV: &str = "recv";
    let fields = json::Fields::parse(bytes, &[settle::LIST, RECV])?;
    let recv = fields.get(RECV).ok_or_else(|| ApiError::schema("recv is missing"))?;
    let recv = json::part(RECV, recv)?;
    let plan = match fields.get(settle::LIST) {
        Some(list) => settle::Plan::parse_one_by_one(active, list)?,
        None => settle::Plan::new(active, std::iter::empty())?,
    };
    Ok((plan, recv))
}

/// The token that is attenuated for each delivery, if the request asks for that.
pub(super) fn delegating<'a>(call: &Call<'a>, recv: &RecvRequest) -> Result<Option<&'a Grant>, ApiError> {
    if !recv.delegate {
        return Ok(None);
    }
    let Some(grant) = call.access.limits() else {
        let text =
            "delegate needs a token, which is limited to each delivery; this server demands none: omit it";
        return Err(ApiError::schema(text));
    };
    if !grant.can_delegate() {
        return Err(ApiError::schema(
            "delegate: the token has no space for two more caveats: use another token",
        ));
    }
    Ok(Some(grant))
}

/// The response to a receiver of a single message that gets none.
fn no_message(paused: bool) -> Response {
    let mut response = response::empty(StatusCode::NO_CONTENT);
    if paused {
        let name = HeaderName::from_static(wire::header::PAUSED);
        response.headers_mut().insert(name, HeaderValue::from_static("true"));
    }
    response
}

fn wants_bytes(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.trim().eq_ignore_ascii_case("application/octet-stream"))
}

impl ActiveConfig {
    /// Validates the wait time of a request.
    pub(super) fn wait(&self, wait_ms: Option<u64>) -> Result<Duration, ApiError> {
        let (wait, max) = (Duration::from_millis(wait_ms.unwrap_or(0)), self.config.http.wait_max);
        if wait > max {
            return Err(ApiError::schema(format!("wait_ms must be at most {}", max.as_millis())));
        }
        Ok(wait)
    }
}

/// Converts a request for the library, without the wait time.
pub(super) fn receive_options(call: &Call<'_>, recv: &RecvRequest) -> Result<Receive, ApiError> {
    let active = call.active;
    let mut receive = Receive::new(recv.topic.as_str());
    if let Some(millis) = recv.visibility_ms {
        receive = receive.visibility(convert::visibility(millis, active.mailbox.settings())?);
    }
    if let Some(messages) = recv.max_messages {
        receive = receive.messages(messages);
    }
    if let Some(bytes) = recv.max_bytes {
        // The response is built in memory.
        receive = receive.bytes(bytes.min(active.config.http.batch_bytes_max as u64));
    }
    if let Some(worker) = &recv.worker {
        receive = receive.worker(worker);
    }
    let mut number = None;
    if let Some(text) = &recv.request_id {
        let request = text.parse::<Uid>().ok().and_then(|uid| NonZeroU128::new(uid.as_u128()));
        let request =
            request.ok_or_else(|| ApiError::schema("request_id is not a UUID, or is the nil UUID"))?;
        number = Some(number_of(request));
        receive = receive.request(request);
    }
    if let Some(owner) = call.access.owner(number.unwrap_or_else(|| call.app.random())) {
        receive = receive.owner(owner);
    }
    Ok(receive)
}

/// A number for the owner of the deliveries of a request; the same for its repeats. Receipts contain it, so it must not
/// reveal the request id.
fn number_of(request: NonZeroU128) -> u64 {
    let mut bytes = b"oncebox receiver 2".to_vec();
    bytes.extend_from_slice(&request.get().to_be_bytes());
    let hash = Fingerprint::of_bytes(&bytes);
    u64::from_be_bytes(hash.as_bytes().first_chunk().copied().expect("a hash has 32 bytes"))
}

/// What became of the settlements of a request, and what it received.
#[derive(Default)]
struct Round {
    outcomes: Vec<SettleOutcome>,
    received: mailbox::Received,
    /// Why nothing was received: the token has ended, and was only good for the settlements.
    refused: Option<ApiError>,
}

/// Settles deliveries, then receives what is ready, or waits for it. The wait ends when the server stops and when the
/// client closes its sending side: it may be gone, and messages delivered to it would be hidden from others.
async fn settle_and_receive(
    call: &Call<'_>,
    settles: Vec<Settle>,
    recv: &RecvRequest,
) -> Result<Round, ApiError> {
    let Call { app, active, .. } = call;
    let until = Instant::now() + active.wait(recv.wait_ms)?;
    let options = receive_options(call, recv)?;
    let mailbox = &active.mailbox;
    if let Some(reason) = call.access.ended() {
        let refused = ApiError::from(AccessRefusal::from(reason));
        if settles.is_empty() {
            return Err(refused);
        }
        let outcomes = mailbox.settle_all(settles).await.map_err(convert::api_error)?;
        return Ok(Round { outcomes, refused: Some(refused), ..Round::default() });
    }
    call.check_topic(Some(&recv.topic))?;
    // What is received counts once it is known.
    call.count(0)?;
    let began = Instant::now();
    let (outcomes, mut received) = if settles.is_empty() {
        (Vec::new(), mailbox.receive(options.clone()).await.map_err(convert::api_error)?)
    } else {
        mailbox.work(settles, options.clone()).await.map_err(convert::api_error)?
    };
    app.metrics.dequeue.record(began.elapsed());
    let left = until.saturating_duration_since(Instant::now());
    if received.is_empty() && !left.is_zero() && !call.gone.is_cancelled() {
        let gone = call.gone.child_token();
        let receive = mailbox.receive(options.wait(left).cancelled_by(gone.clone()));
        received = match call.until_token_ends(&gone, receive).await {
            // The settle outcomes must be returned: the next request reports that too many messages are in flight.
            Err(error) if !outcomes.is_empty() && error.kind() == ErrorKind::Saturated => received,
            result => result.map_err(convert::api_error)?,
        };
    }
    record_delivered(app, &recv.topic, &received.envelopes);
    call.received(received.envelopes.len());
    Ok(Round { outcomes, received, refused: None })
}

/// Counts delivered messages.
pub(super) fn record_delivered(app: &App, topic: &str, envelopes: &[Envelope]) {
    if envelopes.is_empty() {
        return;
    }
    let redelivered = envelopes.iter().filter(|envelope| envelope.attempt > 1).count();
    app.metrics.topic(topic).delivered(envelopes.len() as u64, redelivered as u64);
}
