//! Receiving, and one round of work.

use std::num::NonZeroU128;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::header::ACCEPT;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use oncebox::Kind;
use oncebox::mailbox::{self, Envelope, Outcome, Receive, Settle};
use oncebox_core::Uid;
use oncebox_wire as wire;
use oncebox_wire::mailbox::{Received, Recv, Worked};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::app::App;
use super::super::gate::HungUp;
use super::super::openapi::{Integrity, Refusals};
use super::super::refusal::Refusal;
use super::super::{body, json};
use super::{TAG, binary, convert, outgoing, settle};

/// Visibilities are not longer than this: half a day.
pub(super) const VISIBILITY_MAX: Duration = Duration::from_secs(12 * 60 * 60);
/// Waits are cut into pieces of this length, so that a server that stops does not wait for its receivers.
pub(super) const PIECE: Duration = Duration::from_secs(1);

/// Gives messages out: hidden from others until they are acknowledged or their visibility ends.
///
/// With `Accept: application/octet-stream` it gives one message, whose payload is the body and the rest headers, or 204.
#[utoipa::path(
    post,
    path = "/v1/recv",
    tag = TAG,
    request_body = Recv,
    responses(
        (status = 200, description = "What was ready; none is no error.", body = Received),
        Integrity,
        Refusals,
    ),
)]
pub(super) async fn recv(
    State(app): State<App>,
    Extension(HungUp(hung_up)): Extension<HungUp>,
    request: Request,
) -> Result<Response, Refusal> {
    messages(&app, &hung_up, request).await
}

pub(in crate::http) async fn messages(
    app: &App,
    hung_up: &CancellationToken,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let (mut wish, _room): (Recv, _) =
        body::read_json(app, &parts.headers, content, app.live().one()).await?;
    let as_bytes = wants_bytes(&parts.headers);
    if as_bytes && wish.max_messages.replace(1).is_some_and(|messages| messages != 1) {
        return Err(Refusal::schema("as bytes, one message is given at a time: leave max_messages out"));
    }
    let (_, taken) = take(app, hung_up, Vec::new(), &wish).await?;
    if taken.envelopes.is_empty() && !taken.damaged.is_empty() {
        return Err(convert::damaged(&taken.damaged));
    }
    if as_bytes {
        return match taken.into_iter().next() {
            Some(envelope) => binary::answer(convert::envelope(envelope)),
            None => Ok(StatusCode::NO_CONTENT.into_response()),
        };
    }
    body::answer_written(outgoing::received(&taken))
}

/// One round of a remote worker: settles what it is done with, then gives what is next, in one step.
#[utoipa::path(
    post,
    path = "/v1/work",
    tag = TAG,
    request_body = wire::mailbox::Work,
    responses((status = 200, description = "One outcome per delivery, and what was ready.", body = Worked), Refusals),
)]
pub(super) async fn work(
    State(app): State<App>,
    Extension(HungUp(hung_up)): Extension<HungUp>,
    request: Request,
) -> Result<Response, Refusal> {
    round(&app, &hung_up, request).await
}

pub(in crate::http) async fn round(
    app: &App,
    hung_up: &CancellationToken,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let (bytes, _room) = body::read_unparsed(app, &parts.headers, content, app.live().many()).await?;
    let (plan, recv) = match serde_json::from_slice::<wire::mailbox::Work>(&bytes) {
        Ok(work) => (settle::Plan::new(app, work.settle.into_iter().map(Ok))?, work.recv),
        Err(_) => one_by_one(app, &bytes)?,
    };
    drop(bytes);
    let (outcomes, taken) = take(app, hung_up, plan.settles, &recv).await?;
    let results = settle::results(app, plan.items, outcomes);
    body::answer_written(outgoing::worked(&results, &taken))
}

/// A round of work in which something is wrong: with one delivery alone, or with the whole.
fn one_by_one(app: &App, bytes: &[u8]) -> Result<(settle::Plan, Recv), Refusal> {
    const RECV: &str = "recv";
    let fields = json::Fields::parse(bytes, &[settle::LIST, RECV])?;
    let recv = fields.get(RECV).ok_or_else(|| Refusal::schema("recv is missing"))?;
    let recv = json::part(RECV, recv)?;
    let plan = match fields.get(settle::LIST) {
        Some(list) => settle::Plan::one_by_one(app, list)?,
        None => settle::Plan::new(app, std::iter::empty())?,
    };
    Ok((plan, recv))
}

fn wants_bytes(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.split(',').any(|kind| kind.trim().eq_ignore_ascii_case("application/octet-stream"))
}

/// What the library is asked for, without the wait.
pub(super) fn wish(app: &App, wish: &Recv) -> Result<Receive, Refusal> {
    let mut receive = Receive::new(wish.topic.as_str());
    if let Some(millis) = wish.visibility_ms {
        receive = receive.visibility(visibility(app, millis)?);
    }
    if let Some(messages) = wish.max_messages {
        receive = receive.messages(messages);
    }
    if let Some(bytes) = wish.max_bytes {
        // An answer is built in memory.
        receive = receive.bytes(bytes.min(app.live().config.http.batch_bytes_max as u64));
    }
    if let Some(worker) = &wish.worker {
        receive = receive.worker(worker);
    }
    if let Some(text) = &wish.request_id {
        let request = text.parse::<Uid>().ok().and_then(|uid| NonZeroU128::new(uid.as_u128()));
        let request =
            request.ok_or_else(|| Refusal::schema("request_id is not a UUID, or is the nil one"))?;
        receive = receive.request(request);
    }
    Ok(receive)
}

/// A visibility within its bounds.
pub(super) fn visibility(app: &App, millis: u64) -> Result<Duration, Refusal> {
    let (visibility, least) = (Duration::from_millis(millis), app.live().mailbox.settings().visibility_min);
    if !(least..=VISIBILITY_MAX).contains(&visibility) {
        let (least, most) = (least.as_millis(), VISIBILITY_MAX.as_millis());
        return Err(Refusal::schema(format!(
            "visibility_ms is {millis}: it must be from {least} to {most} (milliseconds)"
        )));
    }
    Ok(visibility)
}

/// Settles, then takes what is ready, or waits for it. The waiting is cut into pieces, and ends when the client hangs up:
/// it may be gone, and what it would be given would be hidden from others.
async fn take(
    app: &App,
    hung_up: &CancellationToken,
    settles: Vec<Settle>,
    recv: &Recv,
) -> Result<(Vec<Outcome>, mailbox::Received), Refusal> {
    let until = Instant::now() + app.wait(recv.wait_ms)?;
    let wish = wish(app, recv)?;
    let mailbox = &app.live().mailbox;
    let began = Instant::now();
    let (outcomes, mut taken) = if settles.is_empty() {
        (Vec::new(), mailbox.receive(wish.clone()).await.map_err(convert::refused)?)
    } else {
        mailbox.work(settles, wish.clone()).await.map_err(convert::refused)?
    };
    app.meters.dequeue.record(began.elapsed());
    while taken.is_nothing() && !app.stopping.is_cancelled() {
        let now = Instant::now();
        if now >= until {
            break;
        }
        let next = mailbox.receive(wish.clone().wait(PIECE.min(until - now)));
        let Some(next) = hung_up.run_until_cancelled(next).await else { break };
        taken = match next {
            // What was settled must be answered: the next wish tells that too much is in flight.
            Err(error) if !outcomes.is_empty() && error.kind() == Kind::Saturated => break,
            received => received.map_err(convert::refused)?,
        };
    }
    delivered(app, &recv.topic, &taken.envelopes);
    Ok((outcomes, taken))
}

/// Counts what was given out.
pub(super) fn delivered(app: &App, topic: &str, envelopes: &[Envelope]) {
    if envelopes.is_empty() {
        return;
    }
    let again = envelopes.iter().filter(|envelope| envelope.attempt > 1).count();
    app.meters.topic(topic).given_out(envelopes.len() as u64, again as u64);
}
