//! Which messages to list, show and count; in the query of an address.

use serde::{Deserialize, Serialize};

use super::message::{Namespace, Reason, State};

/// Which end a listing begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// Which messages to list; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub state: Option<State>,
    /// Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub reason: Option<Reason>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// From this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub source: Option<String>,
    /// The oldest first, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub sort: Option<Sort>,
    /// So many at most: 1 to 1,000, 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Goes on where the last page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(pattern = "^[0-9A-Fa-f]{1,16}$"))]
    pub after: Option<String>,
}

/// Which dead letters to list; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListDead {
    /// Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub reason: Option<Reason>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// The oldest first, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub sort: Option<Sort>,
    /// So many at most: 1 to 1,000, 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Goes on where the last page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(pattern = "^[0-9A-Fa-f]{1,16}$"))]
    pub after: Option<String>,
}

/// How to show a message; in the query of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// With its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<bool>,
}

/// A key; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ByKey {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// Its source; in the mailbox, its topic; in the ledger, `ledger`, which may also be left out there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        param(value_type = String, required = true, min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$")
    )]
    pub source: Option<String>,
    /// Its id; in the mailbox, its idempotency key; in the ledger, its key.
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub id: String,
    /// With its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<bool>,
}

/// What to count; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
}
