//! Networking: listeners, and connections that are limited in number and time.

mod activity;
mod activity_stream;
mod connection;
mod connection_limit;
mod drive;
mod lazy_timer;
mod listener;
mod parse_errors;
mod service;
mod tls_stream;

pub(crate) use activity::Timeouts;
pub(crate) use connection::Connections;
pub(crate) use connection_limit::ConnectionLimit;
pub(crate) use drive::RequestBody;
pub(crate) use listener::{Listener, Scheme, Transport};
pub(crate) use service::{Caller, Service};
