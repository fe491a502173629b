//! Health of the server.

use serde::{Deserialize, Serialize};

/// Liveness of the process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LiveResponse {
    /// Always `live`.
    pub status: String,
}

/// Readiness of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadyResponse {
    /// `ready`, `degraded` (reads work, writes do not) or `unavailable`.
    pub status: String,
    /// Whether anything in `missing` is unavailable.
    pub degraded: bool,
    /// Whether messages can be received and settled.
    pub reads: bool,
    /// Whether messages can be sent.
    pub writes: bool,
    /// Stable names of the components that are unavailable.
    pub missing: Vec<String>,
    /// Number of seconds after which to check again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// All findings about the state of the server.
    pub findings: Vec<ReadyFinding>,
}

/// A finding about the state of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReadyFinding {
    /// `warning` or `unhealthy`.
    pub level: String,
    /// The component that the finding is about.
    pub subject: String,
    /// What was found, and what to do about it.
    pub text: String,
}
