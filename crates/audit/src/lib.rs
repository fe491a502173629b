//! Crash campaigns against a durable store that runs in its own process, and the auditor that checks its answers.
//!
//! The process under test writes a line before each call and one after each answer; [`mod@protocol`] describes them.
//! This crate kills it, or copies its disk at a random moment, has a new process list what is left, and compares. It
//! depends on no other crate of the workspace, so that it cannot share a bug with the store.

mod check;
mod child;
pub mod kill;
mod model;
pub mod powercut;
pub mod protocol;
mod random;
mod record;
mod rig;
pub mod server;
pub mod workers;

use std::fmt;

/// Why a campaign failed: a broken guarantee, or an error of the test rig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

type Result<T> = std::result::Result<T, Violation>;
