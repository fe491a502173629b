//! The network: listeners, and connections that may neither be too many nor too slow.

mod alarm;
mod connection;
mod listener;
mod pace;
mod parser;

pub(crate) use alarm::Patience;
pub(crate) use connection::Connections;
pub(crate) use listener::Listener;
