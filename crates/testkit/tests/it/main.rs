//! Tests of the test tools.

mod servers;
