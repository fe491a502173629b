//! The server as its operator sees it.

#[cfg(test)]
mod config;
#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod rig;
