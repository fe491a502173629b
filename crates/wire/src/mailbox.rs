//! Mailbox API: sending, receiving and settling messages.

#[cfg(feature = "openapi")]
mod schema;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::strict::{read_as, unique};
use crate::{Base64, ErrorCode, is_false};

read_as!(Object: SendRequest, SendBatchRequest, RecvRequest, AckRequest, NackRequest, ExtendRequest, SettleItem, SettleBatchRequest, WorkRequest);
read_as!(UnitEnum: SettleOp);

/// Request to send a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SendRequest {
    /// Topic to send to: up to 1,024 bytes.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: String,
    /// Idempotency key: up to 1,024 bytes. Within the deduplication window of the topic, only the first message with
    /// this key is accepted.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub idem_key: String,
    /// Payload.
    pub payload_b64: Base64,
    /// BLAKE3 hash of the payload: `b3:` and 64 hex digits. The server verifies it if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^b3:[0-9A-Fa-f]{64}$"))]
    pub payload_hash: Option<String>,
    /// Attributes: up to 64 names with values, at most 16 KiB in total.
    #[serde(default, deserialize_with = "unique", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::field_schema::attrs))]
    pub attrs: BTreeMap<String, String>,
    /// Messages with the same partition are delivered one at a time, in order, across all topics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub partition: Option<String>,
    /// Key that selects the shard, and nothing else: messages of one topic with the same key are in the same shard, but
    /// are delivered concurrently. Without it, `partition` selects the shard; without both, the topic does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub shard_key: Option<String>,
    /// Correlation id of the message, a UUID. Default: the `X-Corr-Id` of the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub corr_id: Option<String>,
    /// Delay before the first delivery, in milliseconds after the server accepted the message, by the server's clock:
    /// up to one year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 31_536_000_000_u64))]
    pub due_in_ms: Option<u64>,
    /// Time to live, in milliseconds after the server accepted the message: up to one year, and more than `due_in_ms`.
    /// A message that is not acknowledged by then becomes a dead letter with reason `expired`. The topic's retention of
    /// ready messages applies if it ends earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 31_536_000_000_u64))]
    pub expires_in_ms: Option<u64>,
}

/// Response to a send request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SendResponse {
    /// Id of the message; for a duplicate, the id of the first message with the same key and payload.
    pub msg_id: String,
    /// Whether the message is a duplicate.
    pub duplicate: bool,
    /// Earliest end of the deduplication window: until then, duplicates are recognized.
    pub dedup_until: String,
}

/// Request to send up to 1,000 messages, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SendBatchRequest {
    /// Messages to send, in order: up to 1,000.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::messages))]
    pub messages: Vec<SendRequest>,
}

/// Response to a batch of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SendBatchResponse {
    /// One result per message, in order.
    pub results: Vec<SendBatchResult>,
}

/// Result for one message of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SendBatchResult {
    /// Whether the message is accepted, now or before.
    pub ok: bool,
    /// Id of the message that has the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Whether the message is a duplicate.
    #[serde(default)]
    pub duplicate: bool,
    /// Earliest end of the deduplication window: until then, duplicates are recognized.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_until: Option<String>,
    /// Error code if the message was rejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// What went wrong, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Request to receive messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct RecvRequest {
    /// Topic to receive from.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: String,
    /// Visibility timeout in milliseconds, during which other receivers do not get the messages: at least 250. Default:
    /// the setting of the topic, initially 30,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: Option<u64>,
    /// Maximum number of messages to receive: 1 to 256; default 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub max_messages: Option<u32>,
    /// Maximum total size of the payloads in bytes; default 512 KiB. The first message is returned whatever its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Maximum time to wait for the first message, in milliseconds: up to 60,000. In a stream, also for each further
    /// message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 60_000))]
    pub wait_ms: Option<u64>,
    /// A UUID other than the nil UUID that makes it safe to repeat this request: a repeat gets the same deliveries
    /// while they are leased.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid", pattern = "[1-9A-Fa-f]"))]
    pub request_id: Option<String>,
    /// Name of the receiver, shown to operators with the messages that it holds: 1 to 128 printable ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128, pattern = "^[ -~]+$"))]
    pub worker: Option<String>,
    /// Adds a token to each message, with which only its delivery can be settled and extended: to pass on a task without
    /// the rights of the receiver. The request needs a token.
    #[serde(default, skip_serializing_if = "is_false")]
    pub delegate: bool,
}

/// Response to a receive request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RecvResponse {
    /// Received messages; empty if none were ready.
    pub messages: Vec<MessageEnvelope>,
    /// Messages that were ready, but failed the integrity check. They are dead letters now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedMessage>,
    /// Whether the topic is paused, which is why there are no messages.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
}

/// A stored message that does not match its hashes: it was changed after it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DamagedMessage {
    /// Always `E_INTEGRITY`.
    pub code: ErrorCode,
    /// Id of the message, a ULID.
    pub msg_id: String,
    /// Correlation id of the message.
    pub corr_id: String,
}

/// A delivery of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageEnvelope {
    /// Id of the message, a ULID.
    pub msg_id: String,
    /// Topic that the message was sent to.
    pub topic: String,
    /// Time when the server accepted the message; the same in every delivery.
    pub ts: String,
    /// Idempotency key.
    pub idem_key: String,
    /// Payload.
    pub payload_b64: Base64,
    /// BLAKE3 hash of the payload.
    pub payload_hash: String,
    /// Attributes.
    pub attrs: BTreeMap<String, String>,
    /// Correlation id of the message.
    pub corr_id: String,
    /// Shard of the topic that contains the message.
    pub shard: u16,
    /// Number of this delivery, from 1.
    pub attempt: u32,
    /// Hash of everything that does not change between deliveries.
    pub hash_chain: String,
    /// Reserved for a signature.
    pub sig: Option<String>,
    /// Receipt of this delivery, with which to settle it.
    pub receipt: String,
    /// Time when the visibility timeout of this delivery ends.
    pub visible_until: String,
    /// A token for this delivery only; with `delegate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capability: Option<String>,
}

/// Request to acknowledge a delivery. It has no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct AckRequest {}

/// Request to negatively acknowledge a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct NackRequest {
    /// Why the message could not be processed; shown with the dead letter if the message becomes one. Up to 4 KiB are
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Delay before the next delivery in milliseconds, instead of the topic's backoff: up to one week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 604_800_000))]
    pub delay_ms: Option<u64>,
    /// Makes the message a dead letter at once, with reason `failed`. Cannot be combined with `delay_ms`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dead: bool,
}

/// Request to extend the visibility timeout of a delivery.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct ExtendRequest {
    /// New visibility timeout in milliseconds, from now on: at most ten times the timeout that it was received with.
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: u64,
}

/// Result of an acknowledgement, a negative acknowledgement or an extension.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleResponse {
    /// Whether the request succeeded.
    pub ok: bool,
    /// Time when the visibility timeout ends, after an extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_until: Option<String>,
    /// Error code if the request failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// What went wrong, and what to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// How to settle a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum SettleOp {
    /// Acknowledge: the message was processed.
    #[default]
    Ack,
    /// Negatively acknowledge: the message was not processed.
    Nack,
    /// Extend the visibility timeout.
    Extend,
}

/// One delivery to settle.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SettleItem {
    /// How to settle the delivery.
    pub op: SettleOp,
    /// Receipt of the delivery, or the id of its message if this is the first delivery of the message.
    pub delivery: String,
    /// Why the message could not be processed; only with `nack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Delay before the next delivery in milliseconds, instead of the topic's backoff; only with `nack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 604_800_000))]
    pub delay_ms: Option<u64>,
    /// Makes the message a dead letter at once, with reason `failed`; only with `nack`, and not with `delay_ms`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dead: bool,
    /// New visibility timeout in milliseconds, from now on; required with `extend`, and only allowed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: Option<u64>,
}

/// Request to settle up to 1,000 deliveries, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SettleBatchRequest {
    /// Deliveries to settle, in order: up to 1,000.
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::deliveries))]
    pub settle: Vec<SettleItem>,
}

/// Response to a batch of settlements.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettleBatchResponse {
    /// One result per delivery, in order.
    pub results: Vec<SettleResponse>,
}

/// Request to settle deliveries and then receive messages, in one round trip.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct WorkRequest {
    /// Deliveries to settle, in order: up to 1,000.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(schema_with = schema::deliveries))]
    pub settle: Vec<SettleItem>,
    /// Messages to receive.
    pub recv: RecvRequest,
}

/// Response to a work request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkResponse {
    /// One result per delivery, in order.
    pub results: Vec<SettleResponse>,
    /// Received messages; empty if none were ready.
    pub messages: Vec<MessageEnvelope>,
    /// Messages that were ready, but failed the integrity check. They are dead letters now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<DamagedMessage>,
    /// Whether the topic is paused, which is why there are no messages.
    #[serde(default, skip_serializing_if = "is_false")]
    pub paused: bool,
    /// Why nothing was received: the token has ended, and was only good for the settlements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedClaim>,
}

/// Why a request that settled deliveries received nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedClaim {
    /// Always `E_CAP_AUTH`.
    pub code: ErrorCode,
    /// What is wrong with the token, and what to do about it.
    pub message: String,
    /// Why the token is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
