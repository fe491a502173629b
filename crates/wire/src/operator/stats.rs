//! Statistics of the server and its store.

use serde::{Deserialize, Serialize};

use super::message::NamespaceName;
use crate::{BoundUsage, ReadyFinding};

/// Number of messages by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CountsResponse {
    /// Keys that were observed, without a message to process.
    pub seen: u64,
    /// Messages that can be delivered now.
    pub ready: u64,
    /// Messages that are due later.
    pub waiting: u64,
    /// Messages that are delivered and not settled yet.
    pub in_flight: u64,
    /// Processed messages that are still retained.
    pub done: u64,
    /// Dead letters.
    pub dead: u64,
    /// Whether the numbers are estimates.
    pub estimated: bool,
}

/// Statistics of the server and its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StatsResponse {
    /// Version of the server.
    pub version: String,
    /// Uptime of the server in seconds.
    pub uptime_seconds: u64,
    /// Name of the store.
    pub store: String,
    /// Profile of the server: `micronode` or `macronode`.
    pub profile: String,
    /// Whether nothing is written to disk.
    pub amnesia: bool,
    /// `durable`, or `ephemeral` if dead letters are lost when the process ends.
    pub dlq_profile: String,
    /// Authentication of requests: `none` or `bearer`.
    pub auth: String,
    /// Counts of each namespace.
    pub namespaces: Vec<NamespaceCounts>,
    /// Bounds of the store, and bounds of topics and receivers that were reached in the last few seconds.
    pub bounds: Vec<BoundUsage>,
    /// Fields that could not be read because the store does not respond: `namespaces`, `bounds`.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// All findings about the state of the server.
    pub findings: Vec<ReadyFinding>,
}

/// Counts of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceCounts {
    /// Namespace.
    pub namespace: NamespaceName,
    /// Number of messages by state.
    pub counts: CountsResponse,
}
