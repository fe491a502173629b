//! Listing and making revocations.

use oncebox_wire::ErrorCode;
use oncebox_wire::operator::{ListRevocationsResponse, RevocationDetails, RevokeRequest};

use super::api_error::ApiError;
use super::call::Call;
use super::openapi::{BodyErrors, NotFound, ReadErrors};
use super::response::Response;
use super::{body, operator};
use crate::access::{self, AccessControl, Revocation, RevocationTarget, RevocationsError};

const TAG: &str = "access control";

/// Lists the revocations that this server knows.
#[utoipa::path(
    get,
    path = "/v1/admin/revocations",
    operation_id = "list_revocations",
    tag = TAG,
    responses((status = 200, description = "The revocations.", body = ListRevocationsResponse), NotFound, ReadErrors),
)]
pub(super) fn list(call: &Call<'_>) -> Result<Response, ApiError> {
    let control = control(call)?;
    let age_max = call.active.config.auth.cap_cache_ttl;
    let revoked = control.revocations.current(age_max).map_err(access::AccessRefusal::RevocationsTooOld)?;
    body::json(&ListRevocationsResponse { revocations: revoked.list().into_iter().map(details).collect() })
}

/// Revokes a token with everything attenuated from it, or all tokens of a key.
///
/// It applies at once on this server, and on other servers of the same store within `auth.cap_cache_ttl`.
#[utoipa::path(
    post,
    path = "/v1/admin/revocations",
    operation_id = "revoke",
    tag = TAG,
    request_body = RevokeRequest,
    responses((status = 200, description = "The revocation.", body = RevocationDetails), NotFound, BodyErrors),
)]
pub(super) async fn revoke(mut call: Call<'_>) -> Result<Response, ApiError> {
    let (request, _permit): (RevokeRequest, _) = call.read_json().await?;
    let control = control(&call)?;
    let target = target(&request)?;
    let details = access::RevocationDetails {
        compromised: request.compromised,
        actor: operator::actor(&call)?,
        reason: operator::because(request.because.as_deref())?.to_owned(),
    };
    let revocation = control.revocations.revoke(target, details).await?;
    tracing::warn!(
        target = %revocation.target,
        compromised = revocation.details.compromised,
        actor = revocation.details.actor,
        "revoked"
    );
    body::json(&self::details(&revocation))
}

fn control<'a>(call: &Call<'a>) -> Result<&'a AccessControl, ApiError> {
    let text = "this server has no keys, so there are no tokens to revoke: set `auth.key_file`";
    call.app.access.as_ref().ok_or_else(|| ApiError::new(ErrorCode::NotFound, text))
}

fn target(request: &RevokeRequest) -> Result<RevocationTarget, ApiError> {
    let text = "target must be `nonce:` and 32 lower-case hex digits, or `key:` and the id of a key: `oncebox cap inspect` shows both";
    RevocationTarget::parse(&request.target).ok_or_else(|| ApiError::schema(text))
}

fn details(revocation: &Revocation) -> RevocationDetails {
    RevocationDetails {
        target: revocation.target.to_string(),
        compromised: revocation.details.compromised,
        since: revocation.since.to_string(),
        actor: revocation.details.actor.clone(),
        reason: revocation.details.reason.clone(),
    }
}

impl From<RevocationsError> for ApiError {
    fn from(error: RevocationsError) -> Self {
        match error {
            RevocationsError::Store(error) => error.into(),
            RevocationsError::Full(bound) => {
                Self::new(ErrorCode::Saturated, error.to_string()).with_bound(bound)
            }
            RevocationsError::File { .. } => Self::new(ErrorCode::Unavailable, error.to_string()),
            RevocationsError::Damaged(_) => Self::new(ErrorCode::Corrupt, error.to_string()),
        }
    }
}
