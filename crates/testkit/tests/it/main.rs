//! Tests of what tests are made with.

mod servers;
