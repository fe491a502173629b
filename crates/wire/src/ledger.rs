//! Ledger API: field names in camel case, values in Pascal case, HTTP status 200 with a `status` field for every
//! expected outcome.

use serde::{Deserialize, Serialize};

use crate::strict::read_as;

read_as!(Object: TryBeginRequest, MarkProcessedRequest, ReleaseRequest);

/// Request to acquire a lease on a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct TryBeginRequest {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// Name of the caller, shown to operators.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Duration of the lease in seconds. Values outside 30 to 120 are clamped; the response contains the actual end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

/// Request to mark a key as processed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct MarkProcessedRequest {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// Lease under which the key was processed. Without it, the key is marked regardless of who holds a lease on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
}

/// Request to release a lease on a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct ReleaseRequest {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// Lease to release.
    pub lease_id: String,
}

/// Status of a key, or outcome of a ledger request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum LedgerStatus {
    /// The caller acquired the lease.
    Acquired,
    /// Another caller holds a lease on the key.
    Busy,
    /// The key is processed.
    Processed,
    /// The lease was released.
    Released,
    /// The lease has ended, or belongs to another key; nothing was changed.
    LeaseLost,
    /// The key was never seen, or is no longer retained.
    Unknown,
    /// The key was seen, and there is no lease on it.
    Pending,
}

/// Response to a try-begin request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct TryBeginResponse {
    /// `Acquired`, `Processed` or `Busy`.
    pub status: LedgerStatus,
    /// Lease to pass to mark-processed or release; only with status `Acquired`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// Time when the current lease ends, of this caller or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// Response to a mark-processed or release request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LedgerResponse {
    /// `Processed`, `Released` or `LeaseLost`.
    pub status: LedgerStatus,
}

/// State of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct KeyResponse {
    /// `Unknown`, `Pending`, `Busy` or `Processed`.
    pub status: LedgerStatus,
    /// Number of leases that were acquired on the key.
    pub attempts: u32,
    /// Time when the key was first seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
    /// Time when the key was last seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// Time when the current lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
}
