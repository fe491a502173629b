//! The ledger's door: 200 with a status for every expected outcome; unknown fields and the case of names do not matter.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use oncebox::ledger::{self, LeaseToken, Released};
use oncebox::{Error, Timestamp};
use oncebox_wire::Code;
use oncebox_wire::ledger::{Answer, Begun, Entry, MarkProcessed, Release, Status, TryBegin};
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::openapi::{NotFound, ReadRefusals, Refusals};
use super::refusal::Refusal;
use super::{body, json};
use crate::config::UnknownKey;

const TAG: &str = "ledger";
/// What the library calls by another name than a request.
const TERMS: [(&str, &str); 1] = [("id", "key")];
/// The names of all fields.
const NAMES: [&str; 4] = ["key", "owner", "leaseSeconds", "leaseId"];

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(try_begin, get_try_begin))
        .routes(routes!(mark_processed, get_mark_processed))
        .routes(routes!(release, get_release))
        .routes(routes!(get))
}

/// Takes a lease on a key, unless it was processed or somebody has one.
#[utoipa::path(
    post,
    path = "/v1/inbox/try-begin",
    operation_id = "try_begin_key",
    tag = TAG,
    request_body = TryBegin,
    responses((status = 200, description = "Whether the lease is yours.", body = Begun), Refusals),
)]
async fn try_begin(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let wish: TryBegin = read(&app, &parts.headers, content).await?;
    let lease = wish.lease_seconds.map(Duration::from_secs);
    let owner = wish.owner.as_deref().filter(|owner| !owner.is_empty());
    let begun = app.ledger.try_begin(&wish.key, owner, lease).await.map_err(refused)?;
    let answer = |status, lease: Option<LeaseToken>, expires_at: Option<Timestamp>| Begun {
        status,
        lease_id: lease.map(|lease| lease.to_string()),
        expires_at: expires_at.map(|at| at.to_string()),
    };
    body::answer(&match begun {
        ledger::Begun::Acquired { lease, expires_at } => {
            answer(Status::Acquired, Some(lease), Some(expires_at))
        }
        ledger::Begun::Busy { expires_at } => answer(Status::Busy, None, Some(expires_at)),
        _ => answer(Status::Processed, None, None),
    })
}

/// The key is processed: under a lease if one is given, else whoever holds it.
#[utoipa::path(
    post,
    path = "/v1/inbox/mark-processed",
    operation_id = "mark_key_processed",
    tag = TAG,
    request_body = MarkProcessed,
    responses((status = 200, description = "Whether it counts.", body = Answer), Refusals),
)]
async fn mark_processed(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let mark: MarkProcessed = read(&app, &parts.headers, content).await?;
    let Some(lease_id) = mark.lease_id else {
        app.ledger.mark_processed(&mark.key).await.map_err(refused)?;
        return body::answer(&Answer { status: Status::Processed });
    };
    let finished = match lease(&app, &mark.key, &lease_id).await? {
        Some(lease) => Some(app.ledger.finish(&mark.key, &lease).await.map_err(refused)?),
        None => None,
    };
    let status = match finished {
        Some(ledger::Finished::Processed) => Status::Processed,
        _ => Status::LeaseLost,
    };
    body::answer(&Answer { status })
}

/// Gives a lease back: the key can be begun again at once.
#[utoipa::path(
    post,
    path = "/v1/inbox/release",
    operation_id = "release_key",
    tag = TAG,
    request_body = Release,
    responses((status = 200, description = "Whether it counts.", body = Answer), Refusals),
)]
async fn release(State(app): State<App>, request: Request) -> Result<Response, Refusal> {
    let (parts, content) = request.into_parts();
    let release: Release = read(&app, &parts.headers, content).await?;
    let released = match lease(&app, &release.key, &release.lease_id).await? {
        Some(lease) => Some(app.ledger.release(&release.key, &lease).await.map_err(refused)?),
        None => None,
    };
    let status = match released {
        Some(Released::Released) => Status::Released,
        _ => Status::LeaseLost,
    };
    body::answer(&Answer { status })
}

/// What is known about a key. Records nothing.
#[utoipa::path(
    get,
    path = "/v1/inbox/{key}",
    operation_id = "get_key",
    tag = TAG,
    params(("key" = String, Path, description = "The key, percent-encoded as a whole.", min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")),
    responses((status = 200, description = "What is known.", body = Entry), NotFound, ReadRefusals),
)]
async fn get(State(app): State<App>, Path(key): Path<String>) -> Result<Response, Refusal> {
    entry(&app, &key).await
}

/// Keys that are spelt like the paths of other calls are keys all the same.
macro_rules! keys_like_paths {
    ($($name:ident: $path:literal, $operation:literal, $key:literal;)+) => {$(
        #[doc = concat!("What is known about the key `", $key, "`. Records nothing.")]
        #[utoipa::path(
            get,
            path = $path,
            operation_id = $operation,
            tag = TAG,
            responses((status = 200, description = "What is known.", body = Entry), NotFound, ReadRefusals),
        )]
        async fn $name(State(app): State<App>) -> Result<Response, Refusal> {
            entry(&app, $key).await
        }
    )+};
}

keys_like_paths! {
    get_try_begin: "/v1/inbox/try-begin", "get_key_try_begin", "try-begin";
    get_mark_processed: "/v1/inbox/mark-processed", "get_key_mark_processed", "mark-processed";
    get_release: "/v1/inbox/release", "get_key_release", "release";
}

async fn entry(app: &App, key: &str) -> Result<Response, Refusal> {
    let found = app.ledger.get(key).await.map_err(refused)?;
    let status = match found.status {
        ledger::Status::Processed => Status::Processed,
        ledger::Status::Busy => Status::Busy,
        ledger::Status::Pending => Status::Pending,
        _ => Status::Unknown,
    };
    if status == Status::Unknown && app.live().config.ledger.unknown_key == UnknownKey::NotFound {
        return Err(Refusal::new(Code::NotFound, "the key never came, or was forgotten"));
    }
    let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
    body::answer(&Entry {
        status,
        attempts: found.attempts,
        first_seen: moment(found.first_seen),
        last_seen: moment(found.last_seen),
        lease_until: moment(found.lease_until),
    })
}

/// A failure of the ledger, in the words of its requests.
fn refused(error: Error) -> Refusal {
    Refusal::from(error).in_terms_of(&TERMS)
}

/// The lease that a text names. What is none of our leases is a foreign one; what is no key is refused all the same.
async fn lease(app: &App, key: &str, text: &str) -> Result<Option<LeaseToken>, Refusal> {
    let lease = text.parse::<LeaseToken>().ok();
    if lease.is_none() {
        app.ledger.get(key).await.map_err(refused)?;
    }
    Ok(lease)
}

async fn read<T: DeserializeOwned>(app: &App, headers: &HeaderMap, content: Body) -> Result<T, Refusal> {
    let (bytes, _room) = body::read_unparsed(app, headers, content, app.live().one()).await?;
    json::parse_any_case(&bytes, &NAMES)
}
