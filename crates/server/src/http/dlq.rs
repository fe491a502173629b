//! Dead letters of the mailbox: list, show, redrive.

use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::Response;
use oncebox::{MessageState, message::Namespace, operator::MessageRef};
use oncebox_wire as wire;
use oncebox_wire::operator::{
    ListDeadRequest, ListRequest, ListResponse, MessageDetails, RedriveRequest, ShowRequest, SweepRequest,
    SweepResponse,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::app::App;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::{body, operator, query, redrive, segment};

const TAG: &str = "dead letters";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(redrive))
        .routes(routes!(reprocess))
}

/// Lists dead letters, one page at a time.
#[utoipa::path(
    get,
    path = "/v1/dlq",
    operation_id = "list_dead_letters",
    tag = TAG,
    params(ListDeadRequest),
    responses((status = 200, description = "A page of dead letters.", body = ListResponse), ReadErrors),
)]
async fn list(State(app): State<App>, uri: Uri) -> Result<Response, ApiError> {
    let ListDeadRequest { reason, topic, sort, limit, after } = query::parse(&uri)?;
    let state = Some(wire::operator::StateName::Dead);
    operator::page(&app, ListRequest { state, reason, topic, sort, limit, after, ..ListRequest::default() })
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
async fn show(State(app): State<App>, Path(msg_id): Path<String>, uri: Uri) -> Result<Response, ApiError> {
    let show: ShowRequest = query::parse(&uri)?;
    operator::show_message(&app, MessageRef::Uid(segment::uid(&msg_id)?), show, Some(MessageState::Dead))
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
async fn redrive(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let (redrive, _permit): (RedriveRequest, _) =
        app.body_budget.read_json(&parts.headers, content, app.active().single_body_limit()).await?;
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
    let operator = app.operator(Namespace::Mailbox, operator::actor(&parts.headers)?);
    body::json(&redrive::run(&app, &operator, &sweep).await?)
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
async fn reprocess(app: State<App>, request: Request) -> Result<Response, ApiError> {
    redrive(app, request).await
}
