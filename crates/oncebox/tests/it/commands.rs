//! Commands, as an application sees them, on every store.

mod behaviours;
mod contracts;
mod hosting;
mod keys;
mod kit;
mod mediator;
mod processing;
mod retries;
mod scheduling;
mod sharing;
mod transactions;
