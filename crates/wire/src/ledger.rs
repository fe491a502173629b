//! The ledger's door: names in camel case, values in Pascal case, 200 with a status for every expected outcome.

use serde::{Deserialize, Serialize};

use crate::strict::read_as;

read_as!(Object: TryBegin, MarkProcessed, Release);

/// Takes a lease on a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct TryBegin {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// Who asks, for those who look at the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// For how long; what is outside of 30 to 120 is brought inside, and the answer tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_seconds: Option<u64>,
}

/// The key is processed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct MarkProcessed {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// The lease under which it was processed; without it, the key is marked whoever holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
}

/// Gives a lease back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", remote = "Self")]
pub struct Release {
    /// The key.
    #[cfg_attr(
        feature = "openapi",
        schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]*\S[^\x00]*$")
    )]
    pub key: String,
    /// The lease.
    pub lease_id: String,
}

/// What became of the wish to begin, mark or release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub enum Status {
    /// The lease is yours.
    Acquired,
    /// Somebody has a lease.
    Busy,
    /// The key was processed.
    Processed,
    /// The lease was given back.
    Released,
    /// The lease has ended, or is another key's; nothing changed.
    LeaseLost,
    /// The key never came, or was forgotten.
    Unknown,
    /// The key came, and nobody has a lease.
    Pending,
}

/// The answer to [`TryBegin`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Begun {
    /// `Acquired`, `Processed` or `Busy`.
    pub status: Status,
    /// What to mark or release with, if it was acquired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_id: Option<String>,
    /// When the lease ends, whoever has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
}

/// The answer to [`MarkProcessed`] and [`Release`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answer {
    /// `Processed`, `Released` or `LeaseLost`.
    pub status: Status,
}

/// What is known about a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `Unknown`, `Pending`, `Busy` or `Processed`.
    pub status: Status,
    /// How often it was begun.
    pub attempts: u32,
    /// When it came first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_seen: Option<String>,
    /// When it came last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<String>,
    /// When the present lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<String>,
}
