//! The server: its configuration, its doors, its telemetry.

pub mod config;
