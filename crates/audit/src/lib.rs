//! Campaigns against a durable store that runs in a process of its own, and the auditor of what it answered.
//!
//! The process under test writes a line before each call and one after each answer ([`mod@line`] has their form). This crate
//! kills it, or copies its disk at a random moment, has what is left listed by a fresh process, and compares. It depends
//! on no crate of ours, so that a mistake of the store cannot excuse itself here.

mod child;
mod judge;
pub mod kill;
pub mod line;
pub mod powercut;
mod random;
mod rig;
pub mod server;
mod standing;
pub mod workers;
mod world;

use std::fmt;

/// Why a campaign stopped: a promise that was not kept, or a rig that does not work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault(String);

impl Fault {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Fault {}

type Result<T> = std::result::Result<T, Fault>;
