//! Paused topics.

use serde::{Deserialize, Serialize};

use crate::strict::read_as;

read_as!(Object: PauseRequest);
read_as!(UnitEnum: PauseName, QueueName);

/// A namespace whose messages have topics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum QueueName {
    /// Messages of the mailbox.
    #[default]
    Mailbox,
    /// Messages of the inbox.
    Inbox,
    /// Commands.
    Commands,
}

/// What is paused in a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum PauseName {
    /// New messages are rejected, and stored ones are delivered.
    Sending,
    /// Messages are accepted and not delivered.
    Receiving,
    /// New messages are rejected and stored ones are not delivered.
    Both,
}

/// Request to pause or resume a topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct PauseRequest {
    /// Namespace; default `mailbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<QueueName>,
    /// The topic. It need not have messages.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: String,
    /// What to pause or resume; default `both`. The rest stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause: Option<PauseName>,
    /// Reason: up to 1,024 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(max_length = 1024))]
    pub because: Option<String>,
}

/// Response to a pause or resume request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PauseResponse {
    /// What is paused in the topic now; missing if nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedTopicDetails>,
}

/// Query parameters of a listing of paused topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListPausedRequest {
    /// Namespace; default `mailbox`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<QueueName>,
}

/// The paused topics of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListPausedResponse {
    /// Paused topics in order of name: at most 1,000.
    pub topics: Vec<PausedTopicDetails>,
}

/// A paused topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PausedTopicDetails {
    /// Name of the topic.
    pub topic: String,
    /// What is paused.
    pub pause: PauseName,
    /// Time of the last change.
    pub since: String,
    /// Who changed it; `oncebox` if the topic was paused because too many of its messages died.
    pub actor: String,
    /// Why; empty if no reason was given.
    pub reason: String,
}
