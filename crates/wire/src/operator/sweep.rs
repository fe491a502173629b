//! The same change to many messages.

use serde::{Deserialize, Serialize};

use super::message::{Namespace, Reason, State};
use crate::strict::read_as;
use crate::{Bound, Code, is_false};

read_as!(Object: Redrive, Sweep);

/// Gives dead letters of the mailbox another chance: those named, or those that match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Redrive {
    /// These; up to 1,000. Then nothing else chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::ids))]
    pub ids: Vec<String>,
    /// Only of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Only with this text in the last error: 1 to 1,024 bytes, upper and lower case differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024))]
    pub error: Option<String>,
    /// Only what became Dead at this moment or later, as RFC 3339 writes it; from 1970 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub since: Option<String>,
    /// Only what became Dead before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub until: Option<String>,
    /// How many at most, 1 to 10,000. If not given, 10,000; a dry run counts all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Continues where an earlier call with the same filter ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-9A-Fa-f]{0,16}-[0-9A-Fa-f]{1,16}(-[0-9A-Fa-f]{1,16})?$")
    )]
    pub after: Option<String>,
    /// Lists the messages that were changed, in `ids`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub list: bool,
    /// Counts those that match, and changes nothing.
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
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::ids))]
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
    /// Only with this text in the last error: 1 to 1,024 bytes, upper and lower case differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024))]
    pub error: Option<String>,
    /// Only what became Dead at this moment or later, as RFC 3339 writes it; from 1970 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub since: Option<String>,
    /// Only what became Dead before this moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub until: Option<String>,
    /// How many at most, 1 to 10,000. If not given, 10,000; a dry run counts all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Continues where an earlier call with the same filter ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-9A-Fa-f]{0,16}-[0-9A-Fa-f]{1,16}(-[0-9A-Fa-f]{1,16})?$")
    )]
    pub after: Option<String>,
    /// Lists the messages that were changed, in `ids`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub list: bool,
    /// Counts those that match, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// A purge must say `true` here, or be a dry run: nothing remains of what it erases.
    #[serde(default)]
    pub confirm: bool,
    /// Why, for the audit log: up to 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1024))]
    pub because: Option<String>,
}

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Swept {
    /// Messages that matched, without those that were skipped; or that were named and are there.
    pub matched: u64,
    /// Messages that were changed.
    pub changed: u64,
    /// Messages that matched and stay Dead, because their shard is full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Whether it only counted.
    pub dry_run: bool,
    /// Whether there may be more: its limit was reached, or some were skipped.
    pub more: bool,
    /// Where the next call continues, with `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The messages that were changed, if `list` asked for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// The messages that were named and not changed, each with why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedMessage>,
    /// The bound that messages were skipped for, or refused. Nothing is lost: `next` comes back to them after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Bound>,
}

/// A message that was named and not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedMessage {
    /// The message, as the request named it.
    pub id: String,
    /// `E_NOT_FOUND` if it is not there, or not Dead; `E_SATURATED` if its shard is full.
    pub code: Code,
    /// The same for people.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
