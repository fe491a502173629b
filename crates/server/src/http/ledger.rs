//! The ledger API: 200 with a status for every expected outcome. Unknown fields are ignored, and field names are
//! case-insensitive.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use oncebox::ledger::{self, LeaseToken, ReleaseOutcome};
use oncebox::{Error, Timestamp};
use oncebox_wire::ErrorCode;
use oncebox_wire::ledger::{
    KeyResponse, LedgerResponse, LedgerStatus, MarkProcessedRequest, ReleaseRequest, TryBeginRequest,
    TryBeginResponse,
};
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::api_error::ApiError;
use super::app::App;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::{body, json};
use crate::config::UnknownKey;

const TAG: &str = "ledger";
/// Names of fields in the library and in requests.
const FIELD_NAMES: [(&str, &str); 1] = [("id", "key")];
/// Names of all request fields.
const NAMES: [&str; 4] = ["key", "owner", "leaseSeconds", "leaseId"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(try_begin, get_try_begin))
        .routes(routes!(mark_processed, get_mark_processed))
        .routes(routes!(release, get_release))
        .routes(routes!(get))
}

/// Acquires a lease on a key, unless the key is processed or leased.
#[utoipa::path(
    post,
    path = "/v1/inbox/try-begin",
    operation_id = "try_begin_key",
    tag = TAG,
    request_body = TryBeginRequest,
    responses((status = 200, description = "Whether the lease was acquired.", body = TryBeginResponse), BodyErrors),
)]
async fn try_begin(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let begin: TryBeginRequest = read(&app, &parts.headers, content).await?;
    let lease = begin.lease_seconds.map(Duration::from_secs);
    let owner = begin.owner.as_deref().filter(|owner| !owner.is_empty());
    let outcome = app.ledger.try_begin(&begin.key, owner, lease).await.map_err(api_error)?;
    let response = |status, lease: Option<LeaseToken>, expires_at: Option<Timestamp>| TryBeginResponse {
        status,
        lease_id: lease.map(|lease| lease.to_string()),
        expires_at: expires_at.map(|at| at.to_string()),
    };
    body::json(&match outcome {
        ledger::BeginOutcome::Acquired { lease, expires_at } => {
            response(LedgerStatus::Acquired, Some(lease), Some(expires_at))
        }
        ledger::BeginOutcome::Busy { expires_at } => response(LedgerStatus::Busy, None, Some(expires_at)),
        _ => response(LedgerStatus::Processed, None, None),
    })
}

/// Marks a key as processed: under a lease if one is given, otherwise regardless of any lease.
#[utoipa::path(
    post,
    path = "/v1/inbox/mark-processed",
    operation_id = "mark_key_processed",
    tag = TAG,
    request_body = MarkProcessedRequest,
    responses((status = 200, description = "Whether the key was marked as processed.", body = LedgerResponse), BodyErrors),
)]
async fn mark_processed(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let mark: MarkProcessedRequest = read(&app, &parts.headers, content).await?;
    let Some(lease_id) = mark.lease_id else {
        app.ledger.mark_processed(&mark.key).await.map_err(api_error)?;
        return body::json(&LedgerResponse { status: LedgerStatus::Processed });
    };
    let finished = match lease(&app, &mark.key, &lease_id).await? {
        Some(lease) => Some(app.ledger.finish(&mark.key, &lease).await.map_err(api_error)?),
        None => None,
    };
    let status = match finished {
        Some(ledger::FinishOutcome::Processed) => LedgerStatus::Processed,
        _ => LedgerStatus::LeaseLost,
    };
    body::json(&LedgerResponse { status })
}

/// Releases a lease, so that the key can be begun again at once.
#[utoipa::path(
    post,
    path = "/v1/inbox/release",
    operation_id = "release_key",
    tag = TAG,
    request_body = ReleaseRequest,
    responses((status = 200, description = "Whether the lease was released.", body = LedgerResponse), BodyErrors),
)]
async fn release(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let (parts, content) = request.into_parts();
    let release: ReleaseRequest = read(&app, &parts.headers, content).await?;
    let released = match lease(&app, &release.key, &release.lease_id).await? {
        Some(lease) => Some(app.ledger.release(&release.key, &lease).await.map_err(api_error)?),
        None => None,
    };
    let status = match released {
        Some(ReleaseOutcome::Released) => LedgerStatus::Released,
        _ => LedgerStatus::LeaseLost,
    };
    body::json(&LedgerResponse { status })
}

/// Returns the status of a key. Records nothing.
#[utoipa::path(
    get,
    path = "/v1/inbox/{key}",
    operation_id = "get_key",
    tag = TAG,
    params(("key" = String, Path, description = "The key, percent-encoded.", min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")),
    responses((status = 200, description = "The status of the key.", body = KeyResponse), NotFound, ReadErrors),
)]
async fn get(State(app): State<App>, Path(key): Path<String>) -> Result<Response, ApiError> {
    entry(&app, &key).await
}

/// Keys that equal the paths of other endpoints can be read as well.
macro_rules! keys_like_paths {
    ($($name:ident: $path:literal, $operation:literal, $key:literal;)+) => {$(
        #[doc = concat!("Returns the status of the key `", $key, "`. Records nothing.")]
        #[utoipa::path(
            get,
            path = $path,
            operation_id = $operation,
            tag = TAG,
            responses((status = 200, description = "The status of the key.", body = KeyResponse), NotFound, ReadErrors),
        )]
        async fn $name(State(app): State<App>) -> Result<Response, ApiError> {
            entry(&app, $key).await
        }
    )+};
}

keys_like_paths! {
    get_try_begin: "/v1/inbox/try-begin", "get_key_try_begin", "try-begin";
    get_mark_processed: "/v1/inbox/mark-processed", "get_key_mark_processed", "mark-processed";
    get_release: "/v1/inbox/release", "get_key_release", "release";
}

async fn entry(app: &App, key: &str) -> Result<Response, ApiError> {
    let found = app.ledger.get(key).await.map_err(api_error)?;
    let status = match found.status {
        ledger::KeyStatus::Processed => LedgerStatus::Processed,
        ledger::KeyStatus::Busy => LedgerStatus::Busy,
        ledger::KeyStatus::Pending => LedgerStatus::Pending,
        _ => LedgerStatus::Unknown,
    };
    if status == LedgerStatus::Unknown && app.active().config.ledger.unknown_key == UnknownKey::NotFound {
        return Err(ApiError::new(
            ErrorCode::NotFound,
            "unknown key: it was never seen, or its retention has ended",
        ));
    }
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    body::json(&KeyResponse {
        status,
        attempts: found.attempts,
        first_seen: moment(found.first_seen),
        last_seen: moment(found.last_seen),
        lease_until: moment(found.lease_until),
    })
}

/// Converts an error of the library, with the field names of requests.
fn api_error(error: Error) -> ApiError {
    ApiError::from(error).with_field_names(&FIELD_NAMES)
}

/// Parses a lease id. `None` stands for an id that is not one of ours, which is a lost lease; an invalid key is
/// rejected in any case.
async fn lease(app: &App, key: &str, text: &str) -> Result<Option<LeaseToken>, ApiError> {
    let lease = text.parse::<LeaseToken>().ok();
    if lease.is_none() {
        app.ledger.get(key).await.map_err(api_error)?;
    }
    Ok(lease)
}

async fn read<T: DeserializeOwned>(app: &App, headers: &HeaderMap, content: Body) -> Result<T, ApiError> {
    let (bytes, _permit) =
        app.body_budget.read_unparsed(headers, content, app.active().single_body_limit()).await?;
    json::parse_any_case(&bytes, &NAMES)
}
