//! Messages in the operator API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Base64;
use crate::strict::read_as;

read_as!(UnitEnum: NamespaceName, StateName, ReasonName);

/// Namespace of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum NamespaceName {
    /// The inbox.
    Inbox,
    /// Commands.
    Commands,
    /// The ledger.
    Ledger,
    /// The mailbox.
    #[default]
    Mailbox,
}

/// State of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
#[non_exhaustive]
pub enum StateName {
    /// Only its key was observed; there is nothing to process yet.
    Seen,
    /// Ready, waiting or being processed.
    Processing,
    /// Processed.
    Done,
    /// Dead letter: not delivered again unless an operator redrives it.
    Dead,
}

/// Reason why a message is Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
#[non_exhaustive]
pub enum ReasonName {
    /// A worker or an operator marked it as failed.
    Failed,
    /// The maximum number of failed deliveries was reached.
    Exhausted,
    /// Its expiry passed.
    Expired,
    /// An operator cancelled it.
    Cancelled,
    /// Its payload does not match its hash.
    Integrity,
    /// There is no handler for its topic.
    Unhandled,
    /// Its payload cannot be decoded.
    Undecodable,
}

/// One page of messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ListResponse {
    /// Messages, without their payloads. A page may have fewer than `limit`, or none, although more follow.
    pub messages: Vec<MessageDetails>,
    /// Cursor of the next page; missing on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// All details of a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageDetails {
    /// Id of the message as a ULID.
    pub msg_id: String,
    /// Id of the message as a UUID.
    pub uid: String,
    /// Namespace of the message.
    pub namespace: NamespaceName,
    /// Source; in the mailbox, the topic.
    pub source: String,
    /// Id within the source; in the mailbox, the idempotency key.
    pub id: String,
    /// Topic; missing if the message has no content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// State of the message.
    pub state: StateName,
    /// Reason why the message is Dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ReasonName>,
    /// Number of failed deliveries.
    pub attempts: u32,
    /// Maximum number of failed deliveries; missing if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// Number of deliveries.
    pub deliveries: u32,
    /// Number of times that an operator redrove the message.
    pub redrives: u32,
    /// Error of the last failed delivery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// Time when the message was accepted.
    pub accepted_at: String,
    /// Time when the key was last seen.
    pub last_seen_at: String,
    /// Earliest time of the first delivery, as set by the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// Earliest time of the next delivery, after a failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// Time when the message expires and becomes a dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Time when the message became Done or Dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Current lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseDetails>,
    /// Previous lease, with its original end; missing while there is a current lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lease: Option<LeaseDetails>,
    /// Whether the message still holds its key, so that duplicates are recognized. If not, the key is free, or a later
    /// message holds it.
    pub keyed: bool,
    /// Earliest end of the deduplication window, possibly in the past; missing while it depends on when the message is
    /// processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_until: Option<String>,
    /// Ids of earlier messages with the same key that are still stored, newest first, up to 100; only in a lookup by
    /// key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<String>,
    /// Shard of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Attributes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, String>,
    /// Correlation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// Causation id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
    /// Tenant on whose behalf the message was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Hash of the content, computed by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// Size of the payload in bytes; missing if there is no payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// Payload, if requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_b64: Option<Base64>,
}

/// Lease on a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseDetails {
    /// Opaque id of the holder: equal ids mean the same holder.
    pub owner: String,
    /// Name that the holder gave itself, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Time when the lease ends.
    pub until: String,
}
