//! The real binary, run and read.

mod arguments;
mod completions;
mod config;
mod deaf;
mod demo;
#[cfg(unix)]
mod outside;
mod rig;
mod schema;
mod served;
mod store;
