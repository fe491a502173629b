//! Messages as operators see them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Base64;
use crate::strict::read_as;

read_as!(Word: Namespace, State, Reason);

/// Which face of the store a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum Namespace {
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

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
#[non_exhaustive]
pub enum State {
    /// Its key was sighted; nothing is to be done yet.
    Seen,
    /// To be handled, or being handled.
    Processing,
    /// Handled.
    Done,
    /// Given up, for an operator to look at.
    Dead,
}

/// Why a message is Dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
#[non_exhaustive]
pub enum Reason {
    /// A worker or an operator said so.
    Failed,
    /// Its deliveries ended badly as often as its policy allows.
    Exhausted,
    /// Its expiry passed.
    Expired,
    /// An operator cancelled it.
    Cancelled,
    /// Its payload does not match its hash.
    Integrity,
    /// No handler takes its topic.
    Unhandled,
    /// Its payload cannot be decoded.
    Undecodable,
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Page {
    /// The messages, without their payloads. May be few, even none, though more follow.
    pub messages: Vec<Message>,
    /// Where the next page begins; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Everything that is known about a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its identity as a ULID.
    pub msg_id: String,
    /// The same as a UUID.
    pub uid: String,
    /// Which face it belongs to.
    pub namespace: Namespace,
    /// Its source; in the mailbox, its topic.
    pub source: String,
    /// Its id; in the mailbox, its idempotency key.
    pub id: String,
    /// Its topic, while it has content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Where it stands.
    pub state: State,
    /// Why it is Dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Deliveries that ended badly.
    pub attempts: u32,
    /// Deliveries that end badly, at most; none if there is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
    /// Deliveries.
    pub deliveries: u32,
    /// How often an operator redrove it.
    pub redrives: u32,
    /// Why the last delivery failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// When it was taken in.
    pub accepted_at: String,
    /// When its key came last.
    pub last_seen_at: String,
    /// Not delivered before: its sender said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<String>,
    /// Not delivered before: a delivery failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<String>,
    /// A dead letter from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it became Done or Dead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Who has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// Who had it last, and until when it could have been held; none while somebody has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lease: Option<Lease>,
    /// Whether its key is still held: a repeat would be known as such. If not, the key is free, or a later message has it.
    pub keyed: bool,
    /// Until when a repeat of its key is known as such, at least, or was if that is past; none while that depends on when it is handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_until: Option<String>,
    /// Earlier messages that came under its key and are still stored, the newest first, up to 100: if it was looked up by its key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub older: Vec<String>,
    /// The slice of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<u16>,
    /// Its partition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
    /// Names and values beside the payload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, String>,
    /// What ties it to what it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corr_id: Option<String>,
    /// What caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
    /// On whose behalf it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Our hash of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_hash: Option<String>,
    /// How large its payload is, while it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_bytes: Option<u64>,
    /// Its payload, if that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_b64: Option<Base64>,
}

/// Who has a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    /// The holder: the same text, the same holder.
    pub owner: String,
    /// What the holder calls itself, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
    /// Until when.
    pub until: String,
}
