//! Health.

use serde::{Deserialize, Serialize};

/// The process lives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Live {
    /// Always `live`.
    pub status: String,
}

/// Whether the server can work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ready {
    /// `ready`, `degraded` (reads go on, writes do not) or `unavailable`.
    pub status: String,
    /// Whether anything is missing.
    pub degraded: bool,
    /// Whether messages can be received and settled.
    pub reads: bool,
    /// Whether messages can be sent.
    pub writes: bool,
    /// What is missing, by its stable name.
    pub missing: Vec<String>,
    /// When to ask again, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Everything that somebody should know.
    pub findings: Vec<Finding>,
}

/// One thing that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Finding {
    /// `warning` or `unhealthy`.
    pub level: String,
    /// What it is about.
    pub subject: String,
    /// What was found, and what to do.
    pub text: String,
}
