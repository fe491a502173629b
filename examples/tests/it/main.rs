//! The examples, run and read.

mod retries_and_dead_letters;
mod webhook_receiver;
