//! The mailbox API: send, receive, settle.

mod binary;
mod convert;
pub(super) mod receive;
pub(super) mod send;
pub(super) mod settle;
mod stream;
mod write_json;

use tokio_util::sync::CancellationToken;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;

/// OpenAPI tag.
pub(super) const TAG: &str = "mailbox";

/// [`Caller::hung_up`](crate::net::Caller::hung_up), for routes that wait.
#[derive(Clone)]
pub(super) struct HungUp(pub(super) CancellationToken);

pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(send::send))
        .routes(routes!(send::send_batch))
        .routes(routes!(receive::recv))
        .routes(routes!(stream::recv_stream))
        .routes(routes!(receive::work))
        .routes(routes!(settle::ack))
        .routes(routes!(settle::nack))
        .routes(routes!(settle::extend))
        .routes(routes!(settle::settle))
}
