//! The server as its operator sees it.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod config;
#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod rig;
