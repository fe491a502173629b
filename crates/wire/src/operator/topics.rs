//! Topics and their counts.

use serde::{Deserialize, Serialize};

use super::message::NamespaceName;
use super::pauses::PauseName;

/// Query parameters of a listing of topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListTopicsRequest {
    /// Namespace; default `mailbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<NamespaceName>,
    /// Only this topic; `limit` and `after` are ignored then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Maximum number of topics in the page: 1 to 1,000; default 100. A page may have fewer although more follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Cursor: the `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub after: Option<String>,
}

/// One page of topics, in order of name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListTopicsResponse {
    /// Topics with messages that are not processed. A page may have fewer than `limit`, or none, although more follow.
    pub topics: Vec<TopicDetails>,
    /// Cursor of the next page; missing on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Counts of one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopicDetails {
    /// Name of the topic.
    pub topic: String,
    /// Messages that can be delivered now.
    pub ready: u64,
    /// Messages that are due later.
    pub waiting: u64,
    /// Messages that are delivered and not settled yet.
    pub in_flight: u64,
    /// Names of the first 8 workers that hold deliveries, in byte order. Workers without a name are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Dead letters.
    pub dead: u64,
    /// Time when the oldest ready message was accepted; missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<String>,
    /// Age of the oldest ready message in milliseconds; missing if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_age_ms: Option<u64>,
    /// Messages that this server accepted in the last minute; missing for topics without their own metrics (see
    /// `metrics.topics_max`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_last_minute: Option<u64>,
    /// Deliveries by this server in the last minute, redeliveries included; missing for topics without their own
    /// metrics (see `metrics.topics_max`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_last_minute: Option<u64>,
    /// What is paused; missing if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseName>,
    /// Whether a number is an estimate; the actual number is at least as large.
    pub estimated: bool,
}
