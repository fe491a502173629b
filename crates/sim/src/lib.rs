//! Deterministic simulation of the library: one thread, virtual time, and all randomness from one seed.
//!
//! A [`run`] has nodes whose workers are crashed, stopped, paused and restarted, senders that repeat messages and
//! replace their content, in some runs an operator who pauses topics, and a store that loses requests and answers, stalls, becomes unreachable, and whose clock
//! jumps. Every [event](event::Event) is recorded in a journal. When no work is left, the [`audit`] checks the journal.
//! The audit shares no code with the library: it works on texts and numbers.

pub mod audit;
pub mod event;

mod handler;
mod journal;
mod node;
mod operator;
mod random;
mod sender;
mod simulation;
mod store;
mod time;
mod world;

pub use simulation::{SimRun, run};
