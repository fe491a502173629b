//! The ledger API: 200 with a status for every expected outcome. Unknown fields are ignored, and field names are
//! case-insensitive.

use std::time::Duration;

use oncebox::ledger::{self, LeaseToken, ReleaseOutcome};
use oncebox::{Error, Timestamp};
use oncebox_wire::ErrorCode;
use oncebox_wire::ledger::{
    KeyResponse, LedgerResponse, LedgerStatus, MarkProcessedRequest, ReleaseRequest, TryBeginRequest,
    TryBeginResponse,
};
use serde::de::DeserializeOwned;

use super::api_error::ApiError;
use super::app::App;
use super::call::Call;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::response::Response;
use super::{body, json};
use crate::config::UnknownKey;

const TAG: &str = "ledger";
/// Names of fields in the library and in requests.
const FIELD_NAMES: [(&str, &str); 1] = [("id", "key")];
/// Names of all request fields.
const NAMES: [&str; 4] = ["key", "owner", "leaseSeconds", "leaseId"];

/// Acquires a lease on a key, unless the key is processed or leased.
#[utoipa::path(
    post,
    path = "/v1/inbox/try-begin",
    operation_id = "try_begin_key",
    tag = TAG,
    request_body = TryBeginRequest,
    responses((status = 200, description = "Whether the lease was acquired.", body = TryBeginResponse), BodyErrors),
)]
pub(super) async fn try_begin(mut call: Call<'_>) -> Result<Response, ApiError> {
    let begin: TryBeginRequest = read(&mut call).await?;
    let lease = begin.lease_seconds.map(Duration::from_secs);
    let owner = begin.owner.as_deref().filter(|owner| !owner.is_empty());
    let outcome = call.app.ledger.try_begin(&begin.key, owner, lease).await.map_err(api_error)?;
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
pub(super) async fn mark_processed(mut call: Call<'_>) -> Result<Response, ApiError> {
    let mark: MarkProcessedRequest = read(&mut call).await?;
    let Some(lease_id) = mark.lease_id else {
        call.app.ledger.mark_processed(&mark.key).await.map_err(api_error)?;
        return body::json(&LedgerResponse { status: LedgerStatus::Processed });
    };
    let finished = match lease(call.app, &mark.key, &lease_id).await? {
        Some(lease) => Some(call.app.ledger.finish(&mark.key, &lease).await.map_err(api_error)?),
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
pub(super) async fn release(mut call: Call<'_>) -> Result<Response, ApiError> {
    let release: ReleaseRequest = read(&mut call).await?;
    let released = match lease(call.app, &release.key, &release.lease_id).await? {
        Some(lease) => Some(call.app.ledger.release(&release.key, &lease).await.map_err(api_error)?),
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
pub(super) async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    entry(call.app, &call.parameter()).await
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
        pub(super) async fn $name(call: Call<'_>) -> Result<Response, ApiError> {
            entry(call.app, $key).await
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

async fn read<T: DeserializeOwned>(call: &mut Call<'_>) -> Result<T, ApiError> {
    let (bytes, _permit) = call.read_unparsed().await?;
    json::parse_any_case(&bytes, &NAMES)
}
