//! How topics stand.

use serde::{Deserialize, Serialize};

use super::message::Namespace;

/// Which topics to list; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListTopics {
    /// Of this namespace; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// This topic alone: `limit` and `after` change nothing then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// This many at most: 1 to 1,000, 100 if not given. A page may have fewer, though more follow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Continues where the last page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub after: Option<String>,
}

/// One page of topics, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TopicPage {
    /// The topics that have messages which are not handled. May be few, even none, though more follow.
    pub topics: Vec<Topic>,
    /// Where the next page begins; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// How one topic stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Topic {
    /// Its name.
    pub topic: String,
    /// To be delivered now.
    pub ready: u64,
    /// To be delivered later.
    pub waiting: u64,
    /// Delivered, and not settled yet.
    pub in_flight: u64,
    /// The names of the workers that hold deliveries, in byte order: the first 8. Workers that gave no name are not among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<String>,
    /// Given up.
    pub dead: u64,
    /// When the first message that can be delivered now was accepted; none if there is no such message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_at: Option<String>,
    /// The same as an age, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_age_ms: Option<u64>,
    /// Messages that this server accepted in the last minute. None for topics without metrics of their own (see `metrics.topics_max`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted_last_minute: Option<u64>,
    /// Messages that this server delivered in the last minute, repeats included; likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_last_minute: Option<u64>,
    /// Whether a number is an estimate: there are at least as many.
    pub estimated: bool,
}
