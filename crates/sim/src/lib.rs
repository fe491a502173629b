//! The library in a simulated world: one thread, time that only moves when everybody waits, and all chances from a seed.
//!
//! A [`run`] has nodes whose workers are crashed, stopped, paused and started again, senders that repeat and contradict
//! themselves, and a store between them that loses requests and answers, stalls, goes away, and whose clock leaps. Everything
//! that happens is told to a [`journal`](event::Event); when the world has come to rest, the [`audit`] judges it. The audit
//! shares no code with the library: it knows texts and numbers.

pub mod audit;
pub mod event;

mod chance;
mod handler;
mod journal;
mod node;
mod sender;
mod store;
mod time;
mod world;

pub use world::{Run, run};
