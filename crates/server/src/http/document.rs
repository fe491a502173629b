//! The OpenAPI document.

use oncebox_wire::{ErrorBody, ErrorCode, Problem};
use utoipa::OpenApi;

use super::openapi;
use super::routes::Listener;

/// The parts of the OpenAPI document that are not derived from routes.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Oncebox",
        description = "A durable, idempotent inbox: mailbox, ledger and operator API over HTTP."
    ),
    servers((url = "http://127.0.0.1:7420", description = "A server with the default settings.")),
    components(schemas(
        ErrorBody,
        Problem,
        ErrorCode,
        oncebox_wire::mailbox::MessageEnvelope,
        oncebox_wire::mailbox::SettleItem,
        oncebox_wire::mailbox::SettleOp,
        oncebox_wire::schema::InvalidItem,
    ))
)]
struct Document;

/// Returns the OpenAPI document of all endpoints.
pub fn document() -> utoipa::openapi::OpenApi {
    of(Listener::Public)
}

/// Returns the OpenAPI document of a listener.
pub(super) fn of(listener: Listener) -> utoipa::openapi::OpenApi {
    let mut document = Document::openapi();
    openapi::describe(&mut document);
    openapi::describe_tokens(&mut document);
    listener.describe(&mut document);
    document
}
