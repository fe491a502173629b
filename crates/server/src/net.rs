//! The network: listeners, and connections that may neither be too many nor too slow.

mod activity;
mod alarm;
mod capacity;
mod connection;
mod drive;
mod listener;
mod parser;
mod stream;

pub(crate) use alarm::Patience;
pub(crate) use capacity::Capacity;
pub(crate) use connection::Connections;
pub(crate) use listener::Listener;
