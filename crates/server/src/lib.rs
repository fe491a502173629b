//! The server: configuration, HTTP API, metrics and logs.

pub mod config;
pub mod log;
pub mod server_metrics;

mod access;
mod config_handle;
mod dlq_alerts;
mod http;
mod net;
mod private_file;
mod redriver;
mod run;
mod saturation;
mod scrape;
mod server_error;
mod tls;

pub use http::document;
pub use run::{Reloader, Server};
pub use server_error::ServerError;
