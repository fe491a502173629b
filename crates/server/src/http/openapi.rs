//! The endpoints of the OpenAPI document, and the error responses in it.

mod errors;

use hyper::header::{CONTENT_SECURITY_POLICY, HeaderValue};

use super::api_error::ApiError;
use super::call::Call;
use super::response::{self, Response};
pub(super) use errors::{
    BodyErrors, Duplicate, HeadErrors, Integrity, NotFound, NotHeld, ReadErrors, describe,
};

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
