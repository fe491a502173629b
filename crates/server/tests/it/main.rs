//! Integration tests of the server.

#[cfg(test)]
mod config;
#[cfg(test)]
mod fuzz_regressions;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod rig;
