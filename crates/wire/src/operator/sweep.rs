//! Redriving and purging many messages at once.

use serde::{Deserialize, Serialize};

use super::message::{NamespaceName, ReasonName, StateName};
use crate::strict::read_as;
use crate::{BoundUsage, ErrorCode, is_false};

read_as!(Object: RedriveRequest, SweepRequest);

/// Request to redrive dead letters of the mailbox, by id or by filter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RedriveRequest {
    /// Ids of the messages: up to 1,000. Cannot be combined with a filter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::field_schema::ids))]
    pub ids: Vec<String>,
    /// Only messages of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only messages that are Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonName>,
    /// Only messages whose last error contains this text: 1 to 1,024 bytes, case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024))]
    pub error: Option<String>,
    /// Only messages that became Dead at or after this time: RFC 3339, from 1970 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub since: Option<String>,
    /// Only messages that became Dead before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub until: Option<String>,
    /// Maximum number of messages: 1 to 10,000; default 10,000, and unlimited in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Cursor: the `next` of an earlier response to a request with the same filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-9A-Fa-f]{0,16}-[0-9A-Fa-f]{1,16}(-[0-9A-Fa-f]{1,16})?$")
    )]
    pub after: Option<String>,
    /// Whether the response lists the changed messages in `ids`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub list: bool,
    /// Counts the matching messages without changing them.
    #[serde(default)]
    pub dry_run: bool,
}

/// Request to redrive or purge messages, by id or by filter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SweepRequest {
    /// Namespace; default `mailbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<NamespaceName>,
    /// Ids of the messages: up to 1,000. Cannot be combined with a filter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::field_schema::ids))]
    pub ids: Vec<String>,
    /// Only messages in this state; default `dead`. Only Dead messages can be redriven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StateName>,
    /// Only messages that are Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonName>,
    /// Only messages of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only messages from this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub source: Option<String>,
    /// Only messages whose last error contains this text: 1 to 1,024 bytes, case-sensitive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024))]
    pub error: Option<String>,
    /// Only messages that became Dead at or after this time: RFC 3339, from 1970 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub since: Option<String>,
    /// Only messages that became Dead before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(format = "date-time", pattern = "^(19[7-9][0-9]|[2-9][0-9]{3})-")
    )]
    pub until: Option<String>,
    /// Maximum number of messages: 1 to 10,000; default 10,000, and unlimited in a dry run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Cursor: the `next` of an earlier response to a request with the same filter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "openapi",
        schema(pattern = "^[0-9A-Fa-f]{0,16}-[0-9A-Fa-f]{1,16}(-[0-9A-Fa-f]{1,16})?$")
    )]
    pub after: Option<String>,
    /// Whether the response lists the changed messages in `ids`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub list: bool,
    /// Counts the matching messages without changing them.
    #[serde(default)]
    pub dry_run: bool,
    /// Confirms a purge, which erases messages completely: must be `true` unless `dry_run` is.
    #[serde(default)]
    pub confirm: bool,
    /// Reason for the audit log: up to 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1024))]
    pub because: Option<String>,
}

/// Result of a redrive or purge.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SweepResponse {
    /// Number of messages that matched the filter, not counting `skipped`; or number of the given ids that exist.
    pub matched: u64,
    /// Number of messages that were changed.
    pub changed: u64,
    /// Number of messages that matched but stay Dead, because their shard is full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skipped: u64,
    /// Whether messages were only counted.
    pub dry_run: bool,
    /// Whether there may be more messages: the limit was reached, or some were skipped.
    pub more: bool,
    /// Cursor for the next request, to pass as `after`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Ids of the changed messages, if `list` was set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ids: Vec<String>,
    /// Messages that were given by id and not changed, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedMessage>,
    /// Bound because of which messages were skipped or refused. Skipped messages are not lost: `next` returns to them
    /// after all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<BoundUsage>,
}

/// A message that was given by id and not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedMessage {
    /// Id of the message, as in the request.
    pub id: String,
    /// `E_NOT_FOUND` if the message does not exist or is not Dead; `E_SATURATED` if its shard is full.
    pub code: ErrorCode,
    /// What went wrong, and what to do about it.
    pub message: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
