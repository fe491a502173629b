//! Sending messages.

use std::sync::Arc;

use hyper::HeaderMap;
use oncebox::mailbox::OutgoingMessage;
use oncebox_wire as wire;
use oncebox_wire::mailbox::{SendBatchResponse, SendBatchResult};
use oncebox_wire::{ErrorCode, header};
use tokio::time::Instant;

use super::super::api_error::ApiError;
use super::super::app::App;
use super::super::body::{self, BodyKind};
use super::super::call::Call;
use super::super::json;
use super::super::openapi::{BodyErrors, Duplicate, Integrity};
use super::super::response::Response;
use super::{TAG, binary, convert, write_json};
use crate::server_metrics::TopicMetrics;

/// Sends a message, which is accepted once within the replay window of its topic.
///
/// The payload may also be the body itself, as `application/octet-stream`. Then the headers `X-Topic`, `X-Idem-Key`
/// and, if needed, `X-Partition`, `X-Shard-Key`, `X-Payload-Hash`, `X-Attrs`, `X-Due-In-Ms` and `X-Expires-In-Ms`
/// contain the other fields.
#[utoipa::path(
    post,
    path = "/v1/send",
    tag = TAG,
    params(SendHeaders),
    request_body(content((wire::mailbox::SendRequest = "application/json"))),
    responses((status = 200, description = "The message is accepted, now or before.", body = wire::mailbox::SendResponse), Duplicate, Integrity, BodyErrors),
)]
pub(in crate::http) async fn send(mut call: Call<'_>) -> Result<Response, ApiError> {
    let Call { app, active, .. } = call;
    let conflict_409 = wants_conflict_409(&call.headers)?;
    let (kind, bytes, _permit) = call.read_any().await?;
    let (mut message, names): (wire::mailbox::SendRequest, &[_]) = match kind {
        BodyKind::Json => (json::parse(&bytes)?, &[]),
        BodyKind::Bytes => (binary::message(&call.headers, &bytes)?, &binary::HEADER_NAMES),
    };
    // While the bytes are alive, the connection cannot reuse its buffer.
    drop(bytes);
    let topic = Arc::<str>::from(std::mem::take(&mut message.topic));
    call.check_message(&topic, &message.payload_b64.0)?;
    call.count(1)?;
    let message = convert::outgoing_message(message, topic.clone(), &call.corr_id.trace());
    let message = message.map_err(|error| error.with_field_names(names))?;
    reject_while_stopping(app)?;
    let began = Instant::now();
    let sent = active.mailbox.send(message).await;
    let accepted =
        convert::accepted(sent.map_err(|error| convert::api_error(error).with_field_names(names))?)?;
    app.metrics.enqueue.record(began.elapsed());
    app.metrics.topic(&topic).accepted(accepted.duplicate);
    if !accepted.duplicate {
        app.saturation.accepted();
    }
    if accepted.duplicate && conflict_409 {
        let text = "duplicate: the message was accepted before";
        return Err(
            ApiError::new(ErrorCode::Duplicate, text).existing(accepted.receipt.msg_id.to_string(), true)
        );
    }
    body::serialized_json(write_json::sent(accepted))
}

/// Sends many messages, in order, each with its own outcome.
#[utoipa::path(
    post,
    path = "/v1/queues/mailbox/send",
    tag = TAG,
    request_body = wire::mailbox::SendBatchRequest,
    responses((status = 200, description = "One outcome per message, in order.", body = SendBatchResponse), BodyErrors),
)]
pub(in crate::http) async fn send_batch(mut call: Call<'_>) -> Result<Response, ApiError> {
    let Call { app, active, .. } = call;
    let (bytes, _permit) = call.read_batch().await?;
    let messages = messages(&bytes, active.config.http.batch_items_max)?;
    drop(bytes);
    call.count(messages.len())?;
    reject_while_stopping(app)?;
    // An invalid message must not affect the others.
    let mut outgoing: Vec<OutgoingMessage> = Vec::with_capacity(messages.len());
    let trace = call.corr_id.trace();
    // Messages of a batch usually have the same topic.
    let mut topic: Arc<str> = Arc::default();
    let checked = messages.into_iter().map(|message| {
        let message = message.and_then(|message| {
            call.check_message(&message.topic, &message.payload_b64.0)?;
            if *topic != *message.topic {
                topic = message.topic.as_str().into();
            }
            convert::outgoing_message(message, topic.clone(), &trace)
        });
        (topic.clone(), message.map(|message| outgoing.push(message)).err())
    });
    let checked: Vec<_> = checked.collect();
    if outgoing.is_empty() {
        call.nothing_to_check();
    }
    let began = Instant::now();
    let mut outcomes = active.mailbox.send_all(outgoing).await?.into_iter();
    app.metrics.enqueue.record(began.elapsed());
    let mut counted: Option<(Arc<str>, Arc<TopicMetrics>)> = None;
    let results = checked.into_iter().map(|(topic, error)| {
        let accepted = match error {
            Some(error) => Err(error),
            None => match outcomes.next() {
                Some(outcome) => outcome.map_err(convert::api_error).and_then(convert::accepted),
                None => Err(ApiError::new(
                    ErrorCode::Unavailable,
                    "the store returned no outcome: send the message again",
                )),
            },
        };
        let accepted = accepted.map_err(|error| rejected(app, error))?;
        let (_, metrics) = match counted.take() {
            Some(same) if Arc::ptr_eq(&same.0, &topic) => counted.insert(same),
            _ => {
                let metrics = app.metrics.topic(&topic);
                counted.insert((topic, metrics))
            }
        };
        metrics.accepted(accepted.duplicate);
        if !accepted.duplicate {
            app.saturation.accepted();
        }
        Ok(accepted)
    });
    let results: Vec<_> = results.collect();
    body::serialized_json(write_json::sent_batch(&results))
}

/// Parses the messages of a batch, each with its own error. All are parsed at once; only if that fails, one by one.
fn messages(
    bytes: &[u8],
    items_max: usize,
) -> Result<Vec<Result<wire::mailbox::SendRequest, ApiError>>, ApiError> {
    const LIST: &str = "messages";
    let check = |count: usize| match count {
        count if count > items_max => {
            Err(ApiError::schema(format!("the batch has more than {items_max} messages: split it")))
        }
        _ => Ok(()),
    };
    if let Ok(wire::mailbox::SendBatchRequest { messages }) = serde_json::from_slice(bytes) {
        check(messages.len())?;
        return Ok(messages.into_iter().map(Ok).collect());
    }
    let fields = json::Fields::parse(bytes, &[LIST])?;
    let list = fields.get(LIST).ok_or_else(|| ApiError::schema("messages is missing"))?;
    let items = json::list(LIST, list)?;
    check(items.len())?;
    Ok(items.into_iter().map(json::item).collect())
}

/// The result of a rejected message of a batch; counts the error.
fn rejected(app: &App, error: ApiError) -> SendBatchResult {
    app.record_error(&error);
    let (code, msg_id) = (Some(error.code), error.existing_msg_id());
    SendBatchResult { code, message: Some(error.message), msg_id, ..SendBatchResult::default() }
}

/// A message accepted while the server stops might no longer be written.
fn reject_while_stopping(app: &App) -> Result<(), ApiError> {
    if app.stopping.is_cancelled() {
        return Err(ApiError::new(ErrorCode::Unavailable, "the server is stopping: retry later"));
    }
    Ok(())
}

fn wants_conflict_409(headers: &HeaderMap) -> Result<bool, ApiError> {
    match headers.get(header::IDEMPOTENCY_MODE).map(|mode| mode.to_str().unwrap_or_default()) {
        None | Some(header::FLAG_200) => Ok(false),
        Some(header::CONFLICT_409) => Ok(true),
        Some(_) => Err(ApiError::schema("X-Idempotency-Mode must be `200-flag` or `409-conflict`")),
    }
}

/// Headers in the OpenAPI document.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "headers are read as text")]
struct SendHeaders {
    /// `200-flag` (the default), or `409-conflict` to answer duplicates with 409.
    // An `Option` would be documented as nullable.
    #[param(inline, required = false, rename = "x-idempotency-mode", example = "200-flag")]
    idempotency_mode: IdempotencyMode,
}

/// How a duplicate is answered, in the OpenAPI document.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the header is read as text")]
enum IdempotencyMode {
    #[schema(rename = "200-flag")]
    Flag200,
    #[schema(rename = "409-conflict")]
    Conflict409,
}
