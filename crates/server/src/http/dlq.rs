//! Dead letters of the mailbox: list, show, redrive.

use oncebox::{MessageState, message::Namespace, operator::MessageRef};
use oncebox_wire as wire;
use oncebox_wire::operator::{
    ListDeadRequest, ListRequest, ListResponse, MessageDetails, RedriveRequest, ShowRequest, SweepRequest,
    SweepResponse,
};

use super::api_error::ApiError;
use super::call::Call;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::response::Response;
use super::{body, operator, query, redrive, segment};

const TAG: &str = "dead letters";

/// Lists dead letters, one page at a time.
#[utoipa::path(
    get,
    path = "/v1/dlq",
    operation_id = "list_dead_letters",
    tag = TAG,
    params(ListDeadRequest),
    responses((status = 200, description = "A page of dead letters.", body = ListResponse), ReadErrors),
)]
pub(super) async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let ListDeadRequest { reason, topic, sort, limit, after } = query::parse(&call.uri)?;
    let state = Some(wire::operator::StateName::Dead);
    operator::page(&call, ListRequest { state, reason, topic, sort, limit, after, ..ListRequest::default() })
        .await
}

/// Shows a dead letter.
#[utoipa::path(
    get,
    path = "/v1/dlq/{msg_id}",
    operation_id = "show_dead_letter",
    tag = TAG,
    params(("msg_id" = String, Path, description = "A ULID or a UUID.", pattern = "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$"), ShowRequest),
    responses((status = 200, description = "The dead letter.", body = MessageDetails), NotFound, ReadErrors),
)]
pub(super) async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let show: ShowRequest = query::parse(&call.uri)?;
    operator::show_message(
        &call,
        MessageRef::Uid(segment::uid(&call.parameter())?),
        show,
        Some(MessageState::Dead),
    )
    .await
}

/// Redrives dead letters, selected by id or by filter.
///
/// The attempts of redriven messages are counted from zero again. If a shard is full, redriving stops: `stopped` names
/// the reached bound, and `after` continues. A topic without messages, and ids of which none exists, are answered with
/// 404.
#[utoipa::path(
    post,
    path = "/v1/dlq/redrive",
    operation_id = "redrive_dead_letters",
    tag = TAG,
    request_body = wire::schema::RedriveSchema,
    responses((status = 200, description = "Result of the redrive.", body = SweepResponse), NotFound, BodyErrors),
)]
pub(super) async fn redrive(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (redrive, _permit): (RedriveRequest, _) = call.read_json().await?;
    let RedriveRequest { ids, topic, reason, error, since, until, limit, after, list, dry_run } = redrive;
    let sweep = SweepRequest {
        ids,
        topic,
        reason,
        error,
        since,
        until,
        limit,
        after,
        list,
        dry_run,
        ..SweepRequest::default()
    };
    call.check_topic(sweep.topic.as_deref())?;
    let operator = call.app.operator(Namespace::Mailbox, &operator::actor(&call)?);
    body::json(&redrive::run(call.app, &operator, &sweep).await?)
}

/// Alias of `/v1/dlq/redrive`.
#[utoipa::path(
    post,
    path = "/v1/dlq/reprocess",
    operation_id = "reprocess_dead_letters",
    tag = TAG,
    request_body = wire::schema::RedriveSchema,
    responses((status = 200, description = "Result of the redrive.", body = SweepResponse), NotFound, BodyErrors),
)]
pub(super) async fn reprocess(call: Call<'_>) -> Result<Response, ApiError> {
    redrive(call).await
}
