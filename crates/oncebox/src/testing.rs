//! Helpers for the tests of applications.
