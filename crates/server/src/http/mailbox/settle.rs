//! Settling deliveries.

use std::time::Duration;

use oncebox::mailbox::{DeliveredMessage, DeliveryRef, LeaseToken, Settle, SettleOutcome};
use oncebox_capability::{DeliveryId, MessageFacts};
use oncebox_wire as wire;
use oncebox_wire::ErrorCode;
use oncebox_wire::mailbox::{
    AckRequest, ExtendRequest, NackRequest, SettleBatchResponse, SettleItem, SettleOp, SettleResponse,
};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::super::api_error::ApiError;
use super::super::app::App;
use super::super::call::Call;
use super::super::openapi::{BodyErrors, NotHeld};
use super::super::response::Response;
use super::super::segment;
use super::super::{body, json};
use super::{TAG, convert};
use crate::access::{AccessRefusal, Grant};
use crate::config_handle::ActiveConfig;
use crate::server_metrics::SettledLabel;

/// The request field with the deliveries.
pub(super) const LIST: &str = "settle";
/// Maximum delay of a nack: one week.
const DELAY_MAX: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Number of hex digits of a receipt.
const RECEIPT_DIGITS: usize = 80;

/// Acknowledges a delivery: the message is done.
#[utoipa::path(
    post,
    path = "/v1/ack/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "The receipt of the delivery, or the message id if the message was delivered only once.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    responses((status = 200, description = "The delivery is acknowledged; repeating the request has the same result.", body = SettleResponse), NotHeld, BodyErrors),
)]
pub(in crate::http) async fn ack(mut call: Call<'_>) -> Result<Response, ApiError> {
    let delivery = delivery_ref(&call.parameter())?;
    let AckRequest {} = call.read_optional_json().await?;
    settle_one(&call, Settle::ack(delivery), SettleOp::Ack).await
}

/// Rejects a delivery: the message is redelivered after a backoff, or becomes a dead letter after its last attempt.
///
/// `delay_ms` replaces the backoff of the topic; `dead` makes the message a dead letter at once.
#[utoipa::path(
    post,
    path = "/v1/nack/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "The receipt of the delivery, or the message id if the message was delivered only once.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    request_body(content = Option<wire::schema::NackSchema>),
    responses((status = 200, description = "The delivery is rejected.", body = SettleResponse), NotHeld, BodyErrors),
)]
pub(in crate::http) async fn nack(mut call: Call<'_>) -> Result<Response, ApiError> {
    let delivery = delivery_ref(&call.parameter())?;
    let nack: NackRequest = call.read_optional_json().await?;
    settle_one(&call, settle_nack(delivery, &nack)?, SettleOp::Nack).await
}

/// Extends the visibility timeout of a delivery.
#[utoipa::path(
    post,
    path = "/v1/extend/{delivery}",
    tag = TAG,
    params(("delivery" = String, Path, description = "The receipt of the delivery, or the message id if the message was delivered only once.", pattern = "^([0-9A-Fa-f]{80}|[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25})$")),
    request_body = ExtendRequest,
    responses((status = 200, description = "The delivery is extended until `visible_until`.", body = SettleResponse), NotHeld, BodyErrors),
)]
pub(in crate::http) async fn extend(mut call: Call<'_>) -> Result<Response, ApiError> {
    let delivery = delivery_ref(&call.parameter())?;
    let (extend, _permit): (ExtendRequest, _) = call.read_json().await?;
    let visibility = convert::visibility(extend.visibility_ms, call.active.mailbox.settings())?;
    settle_one(&call, Settle::extend(delivery, visibility), SettleOp::Extend).await
}

/// Settles many deliveries, in order, each with its own outcome.
#[utoipa::path(
    post,
    path = "/v1/settle",
    tag = TAG,
    request_body = wire::mailbox::SettleBatchRequest,
    responses((status = 200, description = "One outcome per delivery, in order.", body = SettleBatchResponse), BodyErrors),
)]
pub(in crate::http) async fn settle(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (bytes, _permit) = call.read_batch().await?;
    let Call { app, active, .. } = call;
    let plan = match serde_json::from_slice::<wire::mailbox::SettleBatchRequest>(&bytes) {
        Ok(batch) => Plan::new(active, batch.settle.into_iter().map(Ok))?,
        Err(_) => {
            let list = json::Fields::parse(&bytes, &[LIST])?.get(LIST);
            Plan::parse_one_by_one(active, list.ok_or_else(|| ApiError::schema("settle is missing"))?)?
        }
    };
    drop(bytes);
    let plan = plan.allowed(&call).await?;
    let began = Instant::now();
    let outcomes = active.mailbox.settle_all(plan.settles).await.map_err(convert::api_error)?;
    app.metrics.ack.record(began.elapsed());
    body::json(&SettleBatchResponse { results: results(app, plan.items, outcomes) })
}

/// Validated deliveries, and the errors of invalid ones.
pub(super) struct Plan {
    pub(super) settles: Vec<Settle>,
    /// One entry per delivery: the operation, or why it is invalid.
    pub(super) items: Vec<Result<SettleOp, ApiError>>,
}

impl Plan {
    /// Validates items that are parsed, or have an error.
    pub(super) fn new(
        active: &ActiveConfig,
        items: impl ExactSizeIterator<Item = Result<SettleItem, ApiError>>,
    ) -> Result<Self, ApiError> {
        let max = active.config.http.batch_items_max;
        if items.len() > max {
            return Err(ApiError::schema(format!("the batch has more than {max} deliveries: split it")));
        }
        let mut settles = Vec::with_capacity(items.len());
        let items = items.map(|item| {
            let item = item?;
            settles.push(settle_of(active, &item)?);
            Ok(item.op)
        });
        let items = items.collect();
        Ok(Self { settles, items })
    }

    /// Replaces what the token does not allow by errors.
    pub(super) async fn allowed(self, call: &Call<'_>) -> Result<Self, ApiError> {
        let Some(grant) = call.access.limits() else { return Ok(self) };
        if call.access.ended().is_none() && !grant.limits_deliveries() {
            call.check_topic(None)?;
            return Ok(self);
        }
        // What a receipt shows by itself is decided before anything is read.
        let mut planned = self.settles.into_iter();
        let items = self.items.into_iter().map(|item| {
            let op = item?;
            let settle = planned.next().ok_or_else(lease_lost)?;
            check_ended(call, grant, receipt_of(settle.delivery()), op, false)?;
            Ok((settle, op))
        });
        let items: Vec<Result<(Settle, SettleOp), ApiError>> = items.collect();
        let deliveries: Vec<DeliveryRef> =
            items.iter().flatten().map(|(settle, _)| settle.delivery()).collect();
        let found = if deliveries.is_empty() {
            call.nothing_to_check();
            Vec::new()
        } else {
            call.active.mailbox.delivered(&deliveries).await.map_err(convert::api_error)?
        };
        let mut found = found.into_iter();
        let mut settles = Vec::with_capacity(items.len());
        let items = items.into_iter().map(|item| {
            let (settle, op) = item?;
            let found = found.next().unwrap_or(DeliveredMessage::Foreign);
            check(call, grant, settle.delivery(), op, &found)?;
            settles.push(settle);
            Ok(op)
        });
        let items = items.collect();
        Ok(Self { settles, items })
    }

    /// Parses the items of a list one by one, so that an invalid item does not affect the others.
    pub(super) fn parse_one_by_one(active: &ActiveConfig, list: &RawValue) -> Result<Self, ApiError> {
        Self::new(active, json::list(LIST, list)?.into_iter().map(json::item))
    }
}

fn receipt_of(delivery: DeliveryRef) -> Option<LeaseToken> {
    match delivery {
        DeliveryRef::Receipt(receipt) => Some(receipt),
        _ => None,
    }
}

/// Whether the token may still settle a delivery, if it has ended: what was received with it before is not held for longer
/// than its lease. Without a receipt, that is not known until the message was read.
fn check_ended(
    call: &Call<'_>,
    grant: &Grant,
    receipt: Option<LeaseToken>,
    op: SettleOp,
    is_read: bool,
) -> Result<(), ApiError> {
    let Some(reason) = call.access.ended() else { return Ok(()) };
    let is_in_flight = receipt.map_or(!is_read, |receipt| grant.received(receipt.owner()));
    if op == SettleOp::Extend || !is_in_flight {
        return Err(AccessRefusal::from(reason).into());
    }
    Ok(())
}

/// Whether the token allows to settle a delivery.
fn check(
    call: &Call<'_>,
    grant: &Grant,
    delivery: DeliveryRef,
    op: SettleOp,
    found: &DeliveredMessage,
) -> Result<(), ApiError> {
    let (topic, receipt) = match found {
        DeliveredMessage::Unfinished { topic, receipt } => (topic, *receipt),
        DeliveredMessage::Finished => {
            // It answers what an earlier settlement did, or that the lease is lost.
            grant.needs_no_check();
            return check_ended(call, grant, receipt_of(delivery), op, true);
        }
        // Such as a lease on a key of the ledger.
        _ => {
            grant.needs_no_check();
            return Err(lease_lost());
        }
    };
    let receipt = receipt_of(delivery).or(receipt);
    check_ended(call, grant, receipt, op, true)?;
    let delivery = receipt.and_then(|receipt| {
        let fence = receipt.fence().get().try_into().ok()?;
        Some(DeliveryId { uid: receipt.uid().as_u128(), fence })
    });
    Ok(call.access.check(&MessageFacts { topic: Some(topic), delivery, ..MessageFacts::default() })?)
}

/// One response per delivery, in order.
pub(super) fn results(
    app: &App,
    items: Vec<Result<SettleOp, ApiError>>,
    outcomes: Vec<SettleOutcome>,
) -> Vec<SettleResponse> {
    let mut outcomes = outcomes.into_iter();
    let results = items.into_iter().map(|item| {
        let settled =
            item.and_then(|op| response(app, outcomes.next().unwrap_or(SettleOutcome::LeaseLost), op));
        settled.unwrap_or_else(|error| {
            app.record_error(&error);
            let (code, message) = (Some(error.code), Some(error.message));
            SettleResponse { ok: false, code, message, visible_until: None }
        })
    });
    results.collect()
}

fn settle_of(active: &ActiveConfig, item: &SettleItem) -> Result<Settle, ApiError> {
    let delivery = delivery_ref(&item.delivery)?;
    if item.op != SettleOp::Nack {
        let nack_fields =
            [("reason", item.reason.is_some()), ("delay_ms", item.delay_ms.is_some()), ("dead", item.dead)];
        if let Some((name, _)) = nack_fields.into_iter().find(|(_, present)| *present) {
            return Err(ApiError::schema(format!("{name} is only allowed with `nack`")));
        }
    }
    match (item.op, item.visibility_ms) {
        (SettleOp::Extend, Some(millis)) => {
            let visibility = convert::visibility(millis, active.mailbox.settings())?;
            Ok(Settle::extend(delivery, visibility))
        }
        (SettleOp::Extend, None) => Err(ApiError::schema("`extend` requires visibility_ms")),
        (_, Some(_)) => Err(ApiError::schema("visibility_ms is only allowed with `extend`")),
        (SettleOp::Ack, None) => Ok(Settle::ack(delivery)),
        (SettleOp::Nack, None) => {
            let nack = NackRequest { reason: item.reason.clone(), delay_ms: item.delay_ms, dead: item.dead };
            settle_nack(delivery, &nack)
        }
    }
}

fn settle_nack(delivery: DeliveryRef, nack: &NackRequest) -> Result<Settle, ApiError> {
    let reason = nack.reason.as_deref();
    let Some(millis) = nack.delay_ms else {
        return Ok(if nack.dead { Settle::fail(delivery, reason) } else { Settle::nack(delivery, reason) });
    };
    if nack.dead {
        return Err(ApiError::schema(
            "dead and delay_ms exclude each other, because a dead letter is not redelivered: omit one",
        ));
    }
    let (delay, max) = (Duration::from_millis(millis), DELAY_MAX.as_millis());
    if delay.is_zero() || delay > DELAY_MAX {
        return Err(ApiError::schema(format!("delay_ms is {millis}, but must be from 1 to {max}")));
    }
    Ok(Settle::nack_after(delivery, delay, reason))
}

fn delivery_ref(text: &str) -> Result<DeliveryRef, ApiError> {
    // A text in the form of a receipt that cannot be parsed was never issued: a lost lease, not a schema error.
    let to_error = |invalid| if has_receipt_form(text) { lease_lost() } else { ApiError::from(invalid) };
    segment::check_length(text)?.parse().map_err(to_error)
}

/// Whether a text has the form of a receipt.
fn has_receipt_form(text: &str) -> bool {
    text.len() == RECEIPT_DIGITS && text.bytes().all(|digit| digit.is_ascii_hexdigit())
}

fn lease_lost() -> ApiError {
    ApiError::new(
        ErrorCode::LeaseLost,
        "the lease of the delivery was lost or never existed: nothing was changed, and another receiver may have the message",
    )
}

async fn settle_one(call: &Call<'_>, settle: Settle, op: SettleOp) -> Result<Response, ApiError> {
    let Call { app, active, .. } = call;
    let plan = Plan { settles: vec![settle], items: vec![Ok(op)] }.allowed(call).await?;
    plan.items.into_iter().collect::<Result<Vec<_>, _>>()?;
    let began = Instant::now();
    let outcome = active.mailbox.settle_all(plan.settles).await.map_err(convert::api_error)?.pop();
    app.metrics.ack.record(began.elapsed());
    body::json(&response(app, outcome.unwrap_or(SettleOutcome::LeaseLost), op)?)
}

/// Converts the outcome, and counts it.
fn response(app: &App, outcome: SettleOutcome, op: SettleOp) -> Result<SettleResponse, ApiError> {
    let requested = match op {
        SettleOp::Ack => SettledLabel::Ack,
        SettleOp::Nack => SettledLabel::Nack,
        SettleOp::Extend => SettledLabel::Extend,
    };
    let (label, settled) = match outcome {
        SettleOutcome::Ok => (requested, Ok(SettleResponse { ok: true, ..SettleResponse::default() })),
        SettleOutcome::Dead => {
            (SettledLabel::Dead, Ok(SettleResponse { ok: true, ..SettleResponse::default() }))
        }
        SettleOutcome::Until(until) => {
            let visible_until = Some(until.to_string());
            (requested, Ok(SettleResponse { ok: true, visible_until, ..SettleResponse::default() }))
        }
        SettleOutcome::ReceiptRequired => (
            SettledLabel::Receipt,
            Err(ApiError::new(
                ErrorCode::Receipt,
                "the message was delivered more than once: use the receipt of the delivery, not the message id",
            )),
        ),
        _ => (SettledLabel::Lost, Err(lease_lost())),
    };
    app.metrics.settled(label);
    settled
}
