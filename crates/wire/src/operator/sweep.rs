//! The same change to many messages.

use serde::{Deserialize, Serialize};

use super::message::{Namespace, Reason, State};
use crate::strict::read_as;

read_as!(Object: Reprocess, Sweep);

/// Gives dead letters of the mailbox another chance: those named, or those that match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Reprocess {
    /// These; up to 1,000. Then nothing else chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub ids: Vec<String>,
    /// Only of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// So many at most: 10,000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Tells how many match, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which messages a sweep changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Sweep {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// These; up to 1,000. Then nothing else chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub ids: Vec<String>,
    /// In this state; Dead if not given. A redrive takes only those.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// Only Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Only of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only from this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub source: Option<String>,
    /// So many at most: 10,000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Tells how many match, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// A purge must say `true` here, or be a dry run: nothing remains of what it erases.
    #[serde(default)]
    pub confirm: bool,
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Swept {
    /// Messages that matched, or were named and are there.
    pub matched: u64,
    /// Messages that were changed.
    pub changed: u64,
    /// Whether it only looked.
    pub dry_run: bool,
    /// Whether there may be more: the limit was reached.
    pub more: bool,
}
