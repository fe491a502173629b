//! The mailbox's door.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::strict::{read_as, unique};
use crate::{Base64, Code, is_false};

read_as!(Object: Send, SendBatch, Recv, Ack, Nack, Extend, SettleItem, Settle, Work);
read_as!(Word: Op);

/// A message to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Send {
    /// Where to: up to 1,024 bytes.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: String,
    /// Within the replay window of its topic, the same key is delivered once: up to 1,024 bytes.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub idem_key: String,
    /// What it carries.
    pub payload_b64: Base64,
    /// `b3:` and 64 hex digits; checked if given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(pattern = "^b3:[0-9A-Fa-f]{64}$"))]
    pub payload_hash: Option<String>,
    /// Names and values beside the payload: up to 64, of 16 KiB together.
    #[serde(default, deserialize_with = "unique", skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::attrs))]
    pub attrs: BTreeMap<String, String>,
    /// Messages of one topic with the same partition are delivered one at a time, in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub partition: Option<String>,
    /// Chooses the shard, and nothing else: messages of one topic with the same key are in the same shard, and are delivered side
    /// by side. Without it, `partition` chooses the shard, and without both the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub shard_key: Option<String>,
    /// Ties the message to what it belongs to: a UUID. The request's `X-Corr-Id` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid"))]
    pub corr_id: Option<String>,
    /// Not delivered before this many milliseconds have passed since the server accepted it, by the server's clock: up to a year.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 31_536_000_000_u64))]
    pub due_in_ms: Option<u64>,
    /// A dead letter, reason `expired`, if it is not handled within this many milliseconds after the server accepted it: up to a
    /// year, and more than `due_in_ms`. The topic's retention of ready messages holds if it ends earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 31_536_000_000_u64))]
    pub expires_in_ms: Option<u64>,
}

/// The answer to [`Send`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Sent {
    /// The message: this one, or the first that had its key and payload.
    pub msg_id: String,
    /// Whether it came before.
    pub duplicate: bool,
    /// Until when a repeat is known as such, at least.
    pub dedup_until: String,
}

/// Messages to be sent, in order; up to 1,000.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SendBatch {
    /// The messages.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::messages))]
    pub messages: Vec<Send>,
}

/// The answer to [`SendBatch`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SentBatch {
    /// One per message, in order.
    pub results: Vec<SentItem>,
}

/// What became of one message of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SentItem {
    /// Whether it is taken in, now or before.
    pub ok: bool,
    /// The message that has the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub msg_id: Option<String>,
    /// Whether it came before.
    #[serde(default)]
    pub duplicate: bool,
    /// Until when a repeat is known as such, at least.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_until: Option<String>,
    /// Why it was not taken in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A wish for messages.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Recv {
    /// Where from.
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: String,
    /// Hidden from others for this many milliseconds: 250 at least. If not given, what the topic is set to: 30,000 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: Option<u64>,
    /// So many messages at most: 1 to 256, 32 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 256))]
    pub max_messages: Option<u32>,
    /// So many payload bytes at most, 512 KiB if not given; the first message comes whatever its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Waits so long for the first message: 60,000 at most. In a stream, for each further one too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(maximum = 60_000))]
    pub wait_ms: Option<u64>,
    /// A UUID, and not the nil one, that makes a repeat of this request safe: it gets the same deliveries while they are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(format = "uuid", pattern = "[1-9A-Fa-f]"))]
    pub request_id: Option<String>,
    /// What the receiver calls itself, shown to operators beside what it holds: 1 to 128 printable ASCII characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 128, pattern = "^[ -~]+$"))]
    pub worker: Option<String>,
}

/// The answer to [`Recv`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Received {
    /// What was ready; none is no error.
    pub messages: Vec<Envelope>,
    /// Messages that were ready, but are not what was sent. They are dead letters now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
}

/// A stored message that does not match its hashes: it was changed between sending and delivery.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Damaged {
    /// Always `E_INTEGRITY`.
    pub code: Code,
    /// The identity of the message, a ULID.
    pub msg_id: String,
    /// What ties it to what it belongs to.
    pub corr_id: String,
}

/// A message in a receiver's hands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Envelope {
    /// The identity of the message, a ULID.
    pub msg_id: String,
    /// Where it was sent to.
    pub topic: String,
    /// When it was sent; the same in every delivery.
    pub ts: String,
    /// Its idempotency key.
    pub idem_key: String,
    /// What it carries.
    pub payload_b64: Base64,
    /// The hash of the payload.
    pub payload_hash: String,
    /// Names and values beside the payload.
    pub attrs: BTreeMap<String, String>,
    /// What ties it to what it belongs to.
    pub corr_id: String,
    /// The slice of the topic that it came through.
    pub shard: u16,
    /// Which delivery this is, from 1.
    pub attempt: u32,
    /// The hash of everything that does not change between deliveries.
    pub hash_chain: String,
    /// Reserved for a signature.
    pub sig: Option<String>,
    /// What to acknowledge this delivery with.
    pub receipt: String,
    /// Until when it is held.
    pub visible_until: String,
}

/// Acknowledges a delivery: there is nothing more to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Ack {}

/// Gives a delivery back.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Nack {
    /// Why; shown with the dead letter, should it become one. Up to 4 KiB are kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It comes again after this many milliseconds, in place of the topic's back-off: up to a week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 604_800_000))]
    pub delay_ms: Option<u64>,
    /// It does not come again: a dead letter at once, reason `failed`. Not together with `delay_ms`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dead: bool,
}

/// Gives a delivery more time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Extend {
    /// So much from now on; ten times the visibility it was received with at most.
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: u64,
}

/// The answer to an acknowledgement, a negative one, or a wish for more time.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Settled {
    /// Whether it counts.
    pub ok: bool,
    /// Until when the delivery is held, if it got more time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub visible_until: Option<String>,
    /// Why it does not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// What is to become of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase", remote = "Self")]
pub enum Op {
    /// It was handled.
    #[default]
    Ack,
    /// It was not.
    Nack,
    /// It needs more time.
    Extend,
}

/// One delivery to be settled.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct SettleItem {
    /// What is to become of it.
    pub op: Op,
    /// Its receipt, or the id of its message if that was never delivered before.
    pub delivery: String,
    /// Why; only with `nack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It comes again after this many milliseconds, in place of the topic's back-off; only with `nack`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 604_800_000))]
    pub delay_ms: Option<u64>,
    /// A dead letter at once, reason `failed`; only with `nack`, and not together with `delay_ms`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dead: bool,
    /// So much more time; only with `extend`, and needed there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 250, maximum = 43_200_000))]
    pub visibility_ms: Option<u64>,
}

/// Deliveries to be settled, in order; up to 1,000.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Settle {
    /// The deliveries.
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::deliveries))]
    pub settle: Vec<SettleItem>,
}

/// The answer to [`Settle`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettledBatch {
    /// One per delivery, in order.
    pub results: Vec<Settled>,
}

/// One round of a remote worker: settles these, then gives the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, remote = "Self")]
pub struct Work {
    /// The deliveries to be settled, in order; up to 1,000.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(schema_with = crate::schema::deliveries))]
    pub settle: Vec<SettleItem>,
    /// What to give next.
    pub recv: Recv,
}

/// The answer to [`Work`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Worked {
    /// One per delivery, in order.
    pub results: Vec<Settled>,
    /// What was ready.
    pub messages: Vec<Envelope>,
    /// Messages that were ready, but are not what was sent. They are dead letters now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub damaged: Vec<Damaged>,
}
