//! The server: configuration, HTTP API, metrics and logs.

pub mod config;
pub mod log;
pub mod server_metrics;

mod config_handle;
mod dlq_alerts;
mod http;
mod net;
mod redriver;
mod run;
mod saturation;
mod scrape;

pub use http::document;
pub use run::{Reloader, Server, ServerError};
