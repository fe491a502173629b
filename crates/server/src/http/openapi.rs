//! The endpoints of the OpenAPI document, and the error responses in it.

mod errors;

use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};
use utoipa::openapi::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};

use super::api_error::ApiError;
use super::call::Call;
use super::response::{self, Response};
pub(super) use errors::{
    BodyErrors, Duplicate, HeadErrors, Integrity, NotFound, NotHeld, ReadErrors, describe,
};

/// The name of the security scheme.
pub(super) const TOKEN: &str = "capability";

/// Describes how requests carry tokens.
pub(super) fn describe_tokens(document: &mut OpenApi) {
    let about = "A capability, on servers with `auth.key_file`. The names beside it are the operation that it must allow.";
    let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).bearer_format("macaroon");
    let scheme = SecurityScheme::Http(scheme.description(Some(about)).build());
    document.components.get_or_insert_default().add_security_scheme(TOKEN, scheme);
}

#[expect(clippy::unnecessary_wraps, reason = "like every handler")]
pub(super) fn json(call: &Call<'_>) -> Result<Response, ApiError> {
    Ok(response::whole(call.documents.json.clone(), "application/json"))
}

#[expect(clippy::unnecessary_wraps, reason = "like every handler")]
pub(super) fn docs(call: &Call<'_>) -> Result<Response, ApiError> {
    let mut response = response::whole(call.documents.page.clone(), "text/html; charset=utf-8");
    // The page loads nothing else.
    let policy =
        HeaderValue::from_static("default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'");
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, policy);
    Ok(response)
}
