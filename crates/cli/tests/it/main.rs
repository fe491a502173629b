//! The real binary, run and read.

mod arguments;
mod completions;
mod config;
mod deaf;
mod demo;
mod outside;
mod rig;
mod served;
mod store;
