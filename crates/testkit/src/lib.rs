//! Tools to test a store: conformance cases, a naive model to compare with, a manual clock, a store with injected
//! faults, real servers, and deadlines.
//!
//! The author of a store implements [`oncebox_core::Store`], writes a function that opens a fresh one, and passes that
//! function to three macros; see [`Fixture`].

mod fixture;
mod kit;

pub mod bounds;
pub mod conformance;
pub mod directory;
pub mod faulty;
pub mod handles;
pub mod model;
pub mod random;
#[cfg(feature = "servers")]
pub mod servers;
pub mod timed;

pub use fixture::{Fixture, ManualClock, SplitMix, TestResult, TestTime, block_on};
