//! The server as its operator sees it.

#[cfg(test)]
mod config;
#[cfg(test)]
mod openapi;
