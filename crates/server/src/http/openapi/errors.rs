//! The error responses of routes in the OpenAPI document: each is defined once and referenced by the routes.

use std::collections::BTreeMap;

use oncebox_wire::{ErrorBody, ErrorCode};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, ToSchema};

/// Errors of one status with one meaning.
#[derive(Clone, Copy)]
struct ErrorResponse {
    name: &'static str,
    status: u16,
    codes: &'static [ErrorCode],
    about: &'static str,
}

const SCHEMA: ErrorResponse = ErrorResponse {
    name: "Schema",
    status: 400,
    codes: &[ErrorCode::Schema],
    about: "the request is invalid; do not retry it unchanged",
};
const CAP_AUTH: ErrorResponse = ErrorResponse {
    name: "CapAuth",
    status: 401,
    codes: &[ErrorCode::CapAuth],
    about: "the server demands tokens, and the request has none that is valid now; `reason` says why",
};
const CAP_SCOPE: ErrorResponse = ErrorResponse {
    name: "CapScope",
    status: 403,
    codes: &[ErrorCode::CapScope],
    about: "the token does not allow the request, and `reason` and `caveat` say why; or the request is for another host, or comes from a web page",
};
const NOT_FOUND: ErrorResponse = ErrorResponse {
    name: "NotFound",
    status: 404,
    codes: &[ErrorCode::NotFound],
    about: "not found: it never existed, its retention has ended, or the token does not allow to see it; or there are no keys, and so no revocations",
};
const LEASE_LOST: ErrorResponse = ErrorResponse {
    name: "LeaseLost",
    status: 404,
    codes: &[ErrorCode::LeaseLost],
    about: "the lease of the delivery was lost or never existed; nothing was changed",
};
const TIMEOUT: ErrorResponse = ErrorResponse {
    name: "Timeout",
    status: 408,
    codes: &[ErrorCode::Timeout],
    about: "the body took too long to arrive",
};
const DUPLICATE: ErrorResponse = ErrorResponse {
    name: "Duplicate",
    status: 409,
    codes: &[ErrorCode::Duplicate],
    about: "the idempotency key belongs to the message `msg_id`",
};
const RECEIPT: ErrorResponse = ErrorResponse {
    name: "Receipt",
    status: 409,
    codes: &[ErrorCode::Receipt],
    about: "the message was delivered more than once: use the receipt of the delivery",
};
const TOO_LARGE: ErrorResponse = ErrorResponse {
    name: "FrameTooLarge",
    status: 413,
    codes: &[ErrorCode::FrameTooLarge],
    about: "the body, or a payload in it, is too large",
};
const MEDIA_TYPE: ErrorResponse = ErrorResponse {
    name: "MediaType",
    status: 415,
    codes: &[ErrorCode::Schema],
    about: "the content type or content encoding is not supported",
};
const INTEGRITY: ErrorResponse = ErrorResponse {
    name: "Integrity",
    status: 422,
    codes: &[ErrorCode::Integrity],
    about: "the payload does not match its hash",
};
const SATURATED: ErrorResponse = ErrorResponse {
    name: "Saturated",
    status: 429,
    codes: &[ErrorCode::Saturated],
    about: "a limit is reached, which `bound` names; retry the request after `Retry-After` seconds",
};
const UNSUPPORTED: ErrorResponse = ErrorResponse {
    name: "Unsupported",
    status: 501,
    codes: &[ErrorCode::Unsupported],
    about: "the transfer coding is not supported by the server, or the operation is not supported by the store",
};
const UNAVAILABLE: ErrorResponse = ErrorResponse {
    name: "Unavailable",
    status: 503,
    codes: &[ErrorCode::Unavailable, ErrorCode::Corrupt],
    about: "the store is unavailable or the server is stopping: retry later; or stored data is corrupt",
};

/// Errors of any request.
const HEAD: [ErrorResponse; 3] = [SCHEMA, CAP_SCOPE, UNSUPPORTED];
/// Additional errors of a request with a body.
const BODY: [ErrorResponse; 4] = [TIMEOUT, TOO_LARGE, MEDIA_TYPE, SATURATED];

/// Defines types for `responses(…)`.
macro_rules! listed {
    ($($(#[$about:meta])* $name:ident: $($error:expr),+;)+) => {$(
        $(#[$about])*
        pub(in crate::http) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                let all = [$(&$error[..]),+].concat();
                all.into_iter().map(|error| (error.status.to_string(), error.reference())).collect()
            }
        }
    )+};
}

listed! {
    /// Errors of a route that accepts a body and calls the store.
    BodyErrors: HEAD, [CAP_AUTH], BODY, [UNAVAILABLE];
    /// Errors of a route that accepts no body and calls the store.
    ReadErrors: HEAD, [CAP_AUTH], [UNAVAILABLE];
    /// Errors of a route that does not call the store.
    HeadErrors: HEAD;
    /// The requested object does not exist.
    NotFound: [NOT_FOUND];
    /// The delivery is not leased to the caller, or is named ambiguously.
    NotHeld: [LEASE_LOST], [RECEIPT];
    /// The idempotency key is in use.
    Duplicate: [DUPLICATE];
    /// The payload does not match its hash.
    Integrity: [INTEGRITY];
}

impl ErrorResponse {
    fn reference(self) -> RefOr<Response> {
        RefOr::Ref(Ref::from_response_name(self.name))
    }

    fn response(self) -> Response {
        let codes: Vec<_> = self.codes.iter().map(|code| format!("`{code}`")).collect();
        let body = RefOr::Ref(Ref::from_schema_name(ErrorBody::name()));
        let description = format!("{}: {}.", codes.join(", "), self.about);
        let content = Content::new(Some(body));
        ResponseBuilder::new().description(description).content("application/json", content).build()
    }
}

/// Adds all error responses to a document.
pub(in crate::http) fn describe(document: &mut OpenApi) {
    let all = HEAD.into_iter().chain(BODY).chain([
        CAP_AUTH,
        NOT_FOUND,
        LEASE_LOST,
        DUPLICATE,
        RECEIPT,
        INTEGRITY,
        UNAVAILABLE,
    ]);
    let responses = &mut document.components.get_or_insert_default().responses;
    responses.extend(all.map(|error| (error.name.to_owned(), RefOr::T(error.response()))));
}
