//! Revocations of tokens.

use serde::{Deserialize, Serialize};

use crate::strict::read_as;

read_as!(Object: RevokeRequest);

/// Request to revoke a token, or all tokens of a key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RevokeRequest {
    /// What to revoke: `nonce:` and the nonce of a token, which ends the token and everything attenuated from it; or `key:`
    /// and the id of a key, which ends all tokens of the key.
    #[cfg_attr(feature = "openapi", schema(pattern = "^(nonce:[0-9a-f]{32}|key:[a-z0-9_-]{1,32})$"))]
    pub target: String,
    /// Whether deliveries that were received with the tokens can no longer be settled with them either.
    #[serde(default)]
    pub compromised: bool,
    /// Reason: up to 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1024))]
    pub because: Option<String>,
}

/// A revocation.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RevocationDetails {
    /// What is revoked: `nonce:` and the nonce of a token, or `key:` and the id of a key.
    pub target: String,
    /// Whether deliveries in flight cannot be settled either.
    pub compromised: bool,
    /// Time of the revocation.
    pub since: String,
    /// Who revoked it.
    pub actor: String,
    /// Why; empty if no reason was given.
    pub reason: String,
}

/// All revocations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListRevocationsResponse {
    /// The revocations, those of tokens first: at most 10,000.
    pub revocations: Vec<RevocationDetails>,
}
