//! Runs the real binary and checks its output.

mod arguments;
#[cfg(test)]
mod cap;
mod closed_pipe;
mod completions;
mod config;
mod demo;
#[cfg(unix)]
mod outside;
mod rig;
mod schema;
mod served;
mod store;
