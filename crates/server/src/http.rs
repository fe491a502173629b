//! The HTTP API.

mod api_error;
mod app;
mod authority;
mod authorization;
mod body;
mod call;
mod corr_id;
mod dlq;
mod docs_page;
mod document;
mod head;
mod health;
mod json;
mod ledger;
mod mailbox;
mod openapi;
mod operator;
mod parse_error;
mod pauses;
mod percent;
mod query;
mod redrive;
mod response;
mod revocations;
mod routes;
mod segment;
mod service;
mod sweep;
mod topics;
mod unparsed;
mod view;

pub(crate) use app::App;
pub use document::document;
use routes::Listener;
use service::HttpService;

/// The service of `listen`.
pub(crate) fn service(app: App) -> HttpService {
    HttpService::new(app, Listener::Public)
}

/// The service of `admin.listen`.
pub(crate) fn admin_service(app: App) -> HttpService {
    HttpService::new(app, Listener::Admin)
}
