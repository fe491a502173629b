//! The server as its operator sees it.

#[cfg(test)]
mod config;
