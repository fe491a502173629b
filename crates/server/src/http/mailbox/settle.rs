//! Settling.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use oncebox::mailbox::{Handle, Outcome, Settle};
use oncebox_wire as wire;
use oncebox_wire::Code;
use oncebox_wire::mailbox::{Ack, Extend, Nack, Op, SettleItem, Settled, SettledBatch};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::app::App;
use super::super::openapi::{NotHeld, Refusals};
use super::super::refusal::Refusal;
use super::super::segment;
use super::super::{body, json};
use super::{TAG, convert, receive};
use crate::meters::Ending;

/// The field with the deliveries.
pub(super) const LIST: &str = "settle";
/// The longest delay that a nack may ask for: a week.
const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Hex digits of a receipt.
const RECEIPT_DIGITS: usize = 80;

/// The delivery was handled: the message is gone.
#[utoipa::path(
    post,
    path = "/v1/ack/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "Its receipt, or the id of its message if that was never delivered before.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    responses((status = 200, description = "It counts; the same again is answered the same.", body = Settled), NotHeld, Refusals),
)]
pub(super) async fn ack(
    State(app): State<App>,
    Path(delivery): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let handle = handle(&delivery)?;
    let Ack {} = body::read_optional_json(&app, &parts.headers, content, app.live().one()).await?;
    one(&app, Settle::ack(handle), Op::Ack).await
}

/// The delivery was not handled: it comes again after a while, or is a dead letter if it came too often.
///
/// `delay_ms` replaces the topic's back-off; `dead` makes it a dead letter at once.
#[utoipa::path(
    post,
    path = "/v1/nack/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "Its receipt, or the id of its message if that was never delivered before.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    request_body(content = Option<wire::schema::NackBody>),
    responses((status = 200, description = "It counts.", body = Settled), NotHeld, Refusals),
)]
pub(super) async fn nack(
    State(app): State<App>,
    Path(delivery): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let handle = handle(&delivery)?;
    let nack: Nack = body::read_optional_json(&app, &parts.headers, content, app.live().one()).await?;
    one(&app, settle_nack(handle, &nack)?, Op::Nack).await
}

/// The delivery needs more time.
#[utoipa::path(
    post,
    path = "/v1/extend/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "Its receipt, or the id of its message if that was never delivered before.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    request_body = Extend,
    responses((status = 200, description = "Until when it is held.", body = Settled), NotHeld, Refusals),
)]
pub(super) async fn extend(
    State(app): State<App>,
    Path(delivery): Path<String>,
    request: Request,
) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let handle = handle(&delivery)?;
    let (extend, _room): (Extend, _) =
        body::read_json(&app, &parts.headers, content, app.live().one()).await?;
    let visibility = receive::visibility(&app, extend.visibility_ms)?;
    one(&app, Settle::extend(handle, visibility), Op::Extend).await
}

/// Settles many deliveries, in order, each with its own outcome.
#[utoipa::path(
    post,
    path = "/v1/settle",
    tag = TAG,
    request_body = wire::mailbox::Settle,
    responses((status = 200, description = "One outcome per delivery, in order.", body = SettledBatch), Refusals),
)]
pub(in crate::http) async fn settle(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let (bytes, _room) = body::read_unparsed(&app, &parts.headers, content, app.live().many()).await?;
    let plan = match serde_json::from_slice::<wire::mailbox::Settle>(&bytes) {
        Ok(batch) => Plan::new(&app, batch.settle.into_iter().map(Ok))?,
        Err(_) => {
            let list = json::Fields::parse(&bytes, &[LIST])?.get(LIST);
            Plan::one_by_one(&app, list.ok_or_else(|| Refusal::schema("settle is missing"))?)?
        }
    };
    drop(bytes);
    let began = Instant::now();
    let outcomes = app.live().mailbox.settle_all(plan.settles).await.map_err(convert::refused)?;
    app.meters.ack.record(began.elapsed());
    body::answer(&SettledBatch { results: results(&app, plan.items, outcomes) })
}

/// Deliveries to be settled, and those that cannot be.
pub(super) struct Plan {
    pub(super) settles: Vec<Settle>,
    /// One per delivery: what is asked of it, or why it cannot be.
    pub(super) items: Vec<Result<Op, Refusal>>,
}

impl Plan {
    /// Of items that are parsed, or are none.
    pub(super) fn new(
        app: &App,
        items: impl ExactSizeIterator<Item = Result<SettleItem, Refusal>>,
    ) -> Result<Self, Refusal> {
        let most = app.live().config.http.batch_items_max;
        if items.len() > most {
            return Err(Refusal::schema(format!(
                "there are more than {most} deliveries to settle: split them"
            )));
        }
        let mut settles = Vec::with_capacity(items.len());
        let items = items.map(|item| {
            let item = item?;
            settles.push(settle_of(app, &item)?);
            Ok(item.op)
        });
        let items = items.collect();
        Ok(Self { settles, items })
    }

    /// Of a list in which something is wrong: what it is, is the fault of one item alone.
    pub(super) fn one_by_one(app: &App, list: &RawValue) -> Result<Self, Refusal> {
        Self::new(app, json::list(LIST, list)?.into_iter().map(json::item))
    }
}

/// One answer per delivery, in order.
pub(super) fn results(app: &App, items: Vec<Result<Op, Refusal>>, outcomes: Vec<Outcome>) -> Vec<Settled> {
    let mut outcomes = outcomes.into_iter();
    let results = items.into_iter().map(|item| {
        let settled = item.and_then(|op| answer(app, outcomes.next().unwrap_or(Outcome::LeaseLost), op));
        settled.unwrap_or_else(|refusal| {
            app.refused(&refusal);
            let (code, message) = (Some(refusal.code), Some(refusal.message));
            Settled { ok: false, code, message, visible_until: None }
        })
    });
    results.collect()
}

fn settle_of(app: &App, item: &SettleItem) -> Result<Settle, Refusal> {
    let handle = handle(&item.delivery)?;
    if item.op != Op::Nack {
        let given =
            [("reason", item.reason.is_some()), ("delay_ms", item.delay_ms.is_some()), ("dead", item.dead)];
        if let Some((name, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(Refusal::schema(format!("{name} goes with `nack` only")));
        }
    }
    match (item.op, item.visibility_ms) {
        (Op::Extend, Some(millis)) => Ok(Settle::extend(handle, receive::visibility(app, millis)?)),
        (Op::Extend, None) => Err(Refusal::schema("`extend` needs visibility_ms")),
        (_, Some(_)) => Err(Refusal::schema("visibility_ms goes with `extend` only")),
        (Op::Ack, None) => Ok(Settle::ack(handle)),
        (Op::Nack, None) => {
            let nack = Nack { reason: item.reason.clone(), delay_ms: item.delay_ms, dead: item.dead };
            settle_nack(handle, &nack)
        }
    }
}

fn settle_nack(handle: Handle, nack: &Nack) -> Result<Settle, Refusal> {
    let reason = nack.reason.as_deref();
    let Some(millis) = nack.delay_ms else {
        return Ok(if nack.dead { Settle::fail(handle, reason) } else { Settle::nack(handle, reason) });
    };
    if nack.dead {
        return Err(Refusal::schema(
            "dead and delay_ms contradict each other, for a dead letter does not come again: leave one out",
        ));
    }
    let (delay, most) = (Duration::from_millis(millis), DELAY_MAX.as_millis());
    if delay.is_zero() || delay > DELAY_MAX {
        return Err(Refusal::schema(format!("delay_ms is {millis}: it must be from 1 to {most}")));
    }
    Ok(Settle::nack_after(handle, delay, reason))
}

fn handle(text: &str) -> Result<Handle, Refusal> {
    // What has the form of a receipt was never given out, which is all that is wrong.
    let refused = |invalid| if is_like_receipt(text) { lost() } else { Refusal::from(invalid) };
    segment::short(text)?.parse().map_err(refused)
}

/// Whether a text has the form of a receipt.
fn is_like_receipt(text: &str) -> bool {
    text.len() == RECEIPT_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn lost() -> Refusal {
    Refusal::new(
        Code::LeaseLost,
        "the delivery is not held any more, or never was, and nothing changed: the message may be with another receiver",
    )
}

async fn one(app: &App, settle: Settle, op: Op) -> Result<Response, Refusal> {
    let began = Instant::now();
    let outcome = app.live().mailbox.settle_all(vec![settle]).await.map_err(convert::refused)?.pop();
    app.meters.ack.record(began.elapsed());
    body::answer(&answer(app, outcome.unwrap_or(Outcome::LeaseLost), op)?)
}

/// What became of it, counted.
fn answer(app: &App, outcome: Outcome, op: Op) -> Result<Settled, Refusal> {
    let asked = match op {
        Op::Ack => Ending::Ack,
        Op::Nack => Ending::Nack,
        Op::Extend => Ending::Extend,
    };
    let (ending, settled) = match outcome {
        Outcome::Ok => (asked, Ok(Settled { ok: true, ..Settled::default() })),
        Outcome::Dead => (Ending::Dead, Ok(Settled { ok: true, ..Settled::default() })),
        Outcome::Until(until) => {
            let visible_until = Some(until.to_string());
            (asked, Ok(Settled { ok: true, visible_until, ..Settled::default() }))
        }
        Outcome::ReceiptRequired => (
            Ending::Receipt,
            Err(Refusal::new(
                Code::Receipt,
                "the message was delivered more than once: name the delivery by the receipt that it came with",
            )),
        ),
        _ => (Ending::Lost, Err(lost())),
    };
    app.meters.settled(ending);
    settled
}
