//! Tests that run the examples and check their output.

mod payments;
mod payments_in_one_transaction;
mod retries_and_dead_letters;
mod webhook_receiver;
