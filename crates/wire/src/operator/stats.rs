//! How the server and its store stand.

use serde::{Deserialize, Serialize};

use super::message::Namespace;
use crate::{Bound, Finding};

/// How many messages stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Seen.
    pub seen: u64,
    /// To be delivered now.
    pub ready: u64,
    /// To be delivered later.
    pub waiting: u64,
    /// Delivered, and not settled yet.
    pub in_flight: u64,
    /// Handled, and not forgotten yet.
    pub done: u64,
    /// Given up.
    pub dead: u64,
    /// Whether the numbers are estimates.
    pub estimated: bool,
}

/// How the server and its store stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The server's version.
    pub version: String,
    /// For how long it runs, in seconds.
    pub uptime_seconds: u64,
    /// The store's name.
    pub store: String,
    /// `micronode` or `macronode`.
    pub profile: String,
    /// Whether nothing is kept on disk.
    pub amnesia: bool,
    /// `durable`, or `ephemeral`: then dead letters are gone with the process.
    pub dlq_profile: String,
    /// How requests prove who sends them: `none` or `bearer`.
    pub auth: String,
    /// The faces, each with its counts.
    pub namespaces: Vec<NamespaceCounts>,
    /// The bounds of the store, and those of topics and receivers that were reached in the last seconds.
    pub bounds: Vec<Bound>,
    /// What could not be read because the store does not answer: `namespaces`, `bounds`.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// Everything that somebody should know.
    pub findings: Vec<Finding>,
}

/// The counts of one face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceCounts {
    /// The face.
    pub namespace: Namespace,
    /// Its counts.
    pub counts: Counts,
}
