//! Tests a store: conformance cases, a naive model to compare with, a clock moved by hand, a store that fails on purpose,
//! real servers, and deadlines.
//!
//! Whoever writes a store implements [`oncebox_core::Store`], tells in a function how a fresh one is opened, and names
//! that function in three macros; see [`Fixture`].

mod fixture;

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
