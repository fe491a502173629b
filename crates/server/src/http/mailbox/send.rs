//! Sending.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use oncebox::mailbox::Parcel;
use oncebox_wire as wire;
use oncebox_wire::mailbox::{SentBatch, SentItem};
use oncebox_wire::{Code, header};
use tokio::time::Instant;

use super::super::app::App;
use super::super::body::{self, Kind};
use super::super::gate::CorrId;
use super::super::json;
use super::super::openapi::{Duplicate, Integrity, Refusals};
use super::super::refusal::Refusal;
use super::{TAG, binary, convert, outgoing};
use crate::meters::TopicMeters;

/// Takes a message in, once within the replay window of its topic.
///
/// The payload may also be the body itself, as `application/octet-stream`: then `X-Topic`, `X-Idem-Key` and, where needed,
/// `X-Partition`, `X-Shard-Key`, `X-Payload-Hash`, `X-Attrs`, `X-Due-In-Ms` and `X-Expires-In-Ms` are headers.
#[utoipa::path(
    post,
    path = "/v1/send",
    tag = TAG,
    params(SendHeaders),
    request_body(content((wire::mailbox::Send = "application/json"))),
    responses((status = 200, description = "It is taken in, now or before.", body = wire::mailbox::Sent), Duplicate, Integrity, Refusals),
)]
pub(super) async fn send(
    State(app): State<App>,
    Extension(corr_id): Extension<CorrId>,
    request: Request,
) -> Result<Response, Refusal> {
    one(&app, &corr_id, request).await
}

pub(in crate::http) async fn one(app: &App, corr_id: &CorrId, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let answer_409 = answers_409(&parts.headers)?;
    let kind = match body::kind(&parts.headers) {
        Ok(kind) => kind,
        Err(refusal) => return Err(body::discard(&parts.headers, content, refusal).await),
    };
    let live = app.live();
    let (bytes, _room) = app.room.read(&parts.headers, content, live.one()).await?;
    let (mut message, terms): (wire::mailbox::Send, &[_]) = match kind {
        Kind::Json => (json::parse(&bytes)?, &[]),
        Kind::Bytes => (binary::message(&parts.headers, &bytes)?, &binary::TERMS),
    };
    // While it is held, the connection cannot use its buffer again.
    drop(bytes);
    let topic = Arc::<str>::from(std::mem::take(&mut message.topic));
    let parcel = convert::parcel(message, topic.clone(), &corr_id.trace());
    let parcel = parcel.map_err(|refusal| refusal.in_terms_of(terms))?;
    refuse_while_stopping(app)?;
    let began = Instant::now();
    let sent = live.mailbox.send(parcel).await;
    let taken = convert::sent(sent.map_err(|error| convert::refused(error).in_terms_of(terms))?)?;
    app.meters.enqueue.record(began.elapsed());
    app.meters.topic(&topic).taken_in(taken.duplicate);
    if !taken.duplicate {
        app.saturation.accepted();
    }
    if taken.duplicate && answer_409 {
        let text = "the message came before: it is delivered once";
        return Err(Refusal::new(Code::Duplicate, text).taken(taken.ticket.msg_id.to_string(), true));
    }
    body::answer_written(outgoing::sent(taken))
}

/// Takes many messages in, in order, each with its own outcome.
#[utoipa::path(
    post,
    path = "/v1/send/batch",
    tag = TAG,
    request_body = wire::mailbox::SendBatch,
    responses((status = 200, description = "One outcome per message, in order.", body = SentBatch), Refusals),
)]
pub(super) async fn send_batch(
    State(app): State<App>,
    Extension(corr_id): Extension<CorrId>,
    request: Request,
) -> Result<Response, Refusal> {
    many(&app, &corr_id, request).await
}

pub(in crate::http) async fn many(
    app: &App,
    corr_id: &CorrId,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let live = app.live();
    let (bytes, _room) = body::read_unparsed(app, &parts.headers, content, live.many()).await?;
    let messages = messages(&bytes, live.config.http.batch_items_max)?;
    drop(bytes);
    refuse_while_stopping(app)?;
    // One that is wrong must not keep the others out.
    let mut parcels: Vec<Parcel> = Vec::with_capacity(messages.len());
    let trace = corr_id.trace();
    // Those that are sent together mostly have one topic.
    let mut topic: Arc<str> = Arc::default();
    let checked = messages.into_iter().map(|message| {
        let parcel = message.and_then(|message| {
            if *topic != *message.topic {
                topic = message.topic.as_str().into();
            }
            convert::parcel(message, topic.clone(), &trace)
        });
        (topic.clone(), parcel.map(|parcel| parcels.push(parcel)).err())
    });
    let checked: Vec<_> = checked.collect();
    let began = Instant::now();
    let mut outcomes = live.mailbox.send_all(parcels).await?.into_iter();
    app.meters.enqueue.record(began.elapsed());
    let mut counted: Option<(Arc<str>, Arc<TopicMeters>)> = None;
    let results = checked.into_iter().map(|(topic, refusal)| {
        let taken = match refusal {
            Some(refusal) => Err(refusal),
            None => match outcomes.next() {
                Some(outcome) => outcome.map_err(convert::refused).and_then(convert::sent),
                None => Err(Refusal::new(Code::Unavailable, "the store gave no outcome: send it again")),
            },
        };
        let taken = taken.map_err(|refusal| refused(app, refusal))?;
        let (_, meters) = match counted.take() {
            Some(same) if Arc::ptr_eq(&same.0, &topic) => counted.insert(same),
            _ => {
                let meters = app.meters.topic(&topic);
                counted.insert((topic, meters))
            }
        };
        meters.taken_in(taken.duplicate);
        if !taken.duplicate {
            app.saturation.accepted();
        }
        Ok(taken)
    });
    let results: Vec<_> = results.collect();
    body::answer_written(outgoing::sent_batch(&results))
}

/// The messages of a batch, or why one of them is none. All are parsed at once; only if that fails, each by itself.
fn messages(bytes: &[u8], items_max: usize) -> Result<Vec<Result<wire::mailbox::Send, Refusal>>, Refusal> {
    const LIST: &str = "messages";
    let check = |count: usize| match count {
        count if count > items_max => {
            Err(Refusal::schema(format!("the batch has more than {items_max} messages: split it")))
        }
        _ => Ok(()),
    };
    if let Ok(wire::mailbox::SendBatch { messages }) = serde_json::from_slice(bytes) {
        check(messages.len())?;
        return Ok(messages.into_iter().map(Ok).collect());
    }
    let fields = json::Fields::parse(bytes, &[LIST])?;
    let list = fields.get(LIST).ok_or_else(|| Refusal::schema("messages is missing"))?;
    let items = json::list(LIST, list)?;
    check(items.len())?;
    Ok(items.into_iter().map(json::item).collect())
}

/// A message of a batch that was not taken in, counted.
fn refused(app: &App, refusal: Refusal) -> SentItem {
    app.refused(&refusal);
    let (code, msg_id) = (Some(refusal.code), refusal.taken_by());
    SentItem { code, message: Some(refusal.message), msg_id, ..SentItem::default() }
}

/// What is taken in while the server stops might not be written any more.
fn refuse_while_stopping(app: &App) -> Result<(), Refusal> {
    if app.stopping.is_cancelled() {
        return Err(Refusal::new(Code::Unavailable, "the server is stopping: send it again to the next one"));
    }
    Ok(())
}

fn answers_409(headers: &HeaderMap) -> Result<bool, Refusal> {
    match headers.get(header::IDEMPOTENCY_MODE).map(|mode| mode.to_str().unwrap_or_default()) {
        None | Some(header::FLAG_200) => Ok(false),
        Some(header::CONFLICT_409) => Ok(true),
        Some(_) => Err(Refusal::schema("X-Idempotency-Mode is neither `200-flag` nor `409-conflict`")),
    }
}

/// The headers, as the document says them.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "headers are read as text")]
struct SendHeaders {
    /// `200-flag`, the usual way, or `409-conflict`: a duplicate is answered 409.
    // An `Option` here would be described as one that may say `null`.
    #[param(inline, required = false, rename = "x-idempotency-mode", example = "200-flag")]
    idempotency_mode: IdempotencyMode,
}

/// How a duplicate is answered, as the document says it.
#[derive(utoipa::ToSchema)]
#[expect(dead_code, reason = "the header is read as text")]
enum IdempotencyMode {
    #[schema(rename = "200-flag")]
    Flag200,
    #[schema(rename = "409-conflict")]
    Conflict409,
}
