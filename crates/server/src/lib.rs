//! The server: its configuration, its doors, its telemetry.

pub mod config;
pub mod log;
pub mod meters;

mod dead_letters;
mod http;
mod live;
mod net;
mod redriver;
mod run;
mod saturation;
mod scrape;

pub use http::document;
pub use run::{Error, Reloader, Server};
