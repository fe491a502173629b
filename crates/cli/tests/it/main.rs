//! The real binary, run and read.

mod demo;
