//! Dead letters of the mailbox: list, show, redrive.

use axum::extract::{Path, Request, State};
use axum::http::Uri;
use axum::response::Response;
use oncebox::{MessageState, Namespace, Ref};
use oncebox_wire as wire;
use oncebox_wire::operator::{List, ListDead, Message, Page, Redrive, Show, Sweep, Swept};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::openapi::{NotFound, ReadRefusals, Refusals};
use super::refusal::Refusal;
use super::{body, operator, redrive};

const TAG: &str = "dead letters";

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(redrive))
        .routes(routes!(reprocess))
}

/// Lists dead letters, a page at a time.
#[utoipa::path(
    get,
    path = "/v1/dlq",
    operation_id = "list_dead_letters",
    tag = TAG,
    params(ListDead),
    responses((status = 200, description = "A page of dead letters.", body = Page), ReadRefusals),
)]
async fn list(State(app): State<App>, uri: Uri) -> Result<Response, Refusal> {
    let ListDead { reason, topic, sort, limit, after } = operator::query(&uri)?;
    let state = Some(wire::operator::State::Dead);
    operator::page(&app, List { state, reason, topic, sort, limit, after, ..List::default() }).await
}

/// Shows a dead letter.
#[utoipa::path(
    get,
    path = "/v1/dlq/{msg_id}",
    operation_id = "show_dead_letter",
    tag = TAG,
    params(("msg_id" = String, Path, description = "A ULID or a UUID.", pattern = "^([0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}|[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})$"), Show),
    responses((status = 200, description = "The dead letter.", body = Message), NotFound, ReadRefusals),
)]
async fn show(State(app): State<App>, Path(msg_id): Path<String>, uri: Uri) -> Result<Response, Refusal> {
    let show: Show = operator::query(&uri)?;
    operator::answer_one(&app, Ref::Uid(operator::uid(&msg_id)?), show, Some(MessageState::Dead)).await
}

/// Redrives dead letters: those named, or those that match get another chance. Their attempts count anew.
///
/// It stops where a shard is full, says so in `stopped`, and continues with `after`. A topic that nothing is stored of, and ids
/// of which none exists, are answered 404.
#[utoipa::path(
    post,
    path = "/v1/dlq/redrive",
    operation_id = "redrive_dead_letters",
    tag = TAG,
    request_body = wire::schema::RedriveBody,
    responses((status = 200, description = "What it did.", body = Swept), NotFound, Refusals),
)]
async fn redrive(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let (redrive, _room): (Redrive, _) =
        body::read_json(&app, &parts.headers, content, app.live().one()).await?;
    let Redrive { ids, topic, reason, error, since, until, limit, after, list, dry_run } = redrive;
    let sweep =
        Sweep { ids, topic, reason, error, since, until, limit, after, list, dry_run, ..Sweep::default() };
    let operator = app.operator(Namespace::Mailbox, operator::actor(&parts.headers)?);
    body::answer(&redrive::by(&app, &operator, &sweep).await?)
}

/// The same as `/v1/dlq/redrive`, under the name that the mailbox's design has for it.
#[utoipa::path(
    post,
    path = "/v1/dlq/reprocess",
    operation_id = "reprocess_dead_letters",
    tag = TAG,
    request_body = wire::schema::RedriveBody,
    responses((status = 200, description = "What it did.", body = Swept), NotFound, Refusals),
)]
async fn reprocess(app: State<App>, request: Request) -> Result<Response, Refusal> {
    redrive(app, request).await
}
