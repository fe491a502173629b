//! Tests of the commands API, on every store.

mod behaviours;
mod contracts;
mod keys;
mod kit;
mod mediator;
mod processing;
mod processor_loop;
mod retries;
mod scheduling;
mod sharing;
mod transactions;
