//! Names of headers, in lower case as they travel.

/// Ties a request to its answer, its message and the logs: a UUID. Echoed, or made by the server.
pub const CORR_ID: &str = "x-corr-id";
/// How a duplicate is answered: [`FLAG_200`] or [`CONFLICT_409`].
pub const IDEMPOTENCY_MODE: &str = "x-idempotency-mode";
/// A duplicate is answered 200 with `duplicate: true`; the usual way.
pub const FLAG_200: &str = "200-flag";
/// A duplicate is answered 409.
pub const CONFLICT_409: &str = "409-conflict";
/// Who operates, for the audit log.
pub const ACTOR: &str = "x-actor";

// What travels beside a payload that is a body by itself. Values are percent-encoded UTF-8.

/// The topic.
pub const TOPIC: &str = "x-topic";
/// The idempotency key.
pub const IDEM_KEY: &str = "x-idem-key";
/// The partition.
pub const PARTITION: &str = "x-partition";
/// What chooses the shard, and nothing else.
pub const SHARD_KEY: &str = "x-shard-key";
/// Milliseconds from acceptance before which the message is not delivered.
pub const DUE_IN_MS: &str = "x-due-in-ms";
/// Milliseconds from acceptance after which the message is a dead letter.
pub const EXPIRES_IN_MS: &str = "x-expires-in-ms";
/// The hash of the payload.
pub const PAYLOAD_HASH: &str = "x-payload-hash";
/// Names and values: `name=value&name=value`, each percent-encoded.
pub const ATTRS: &str = "x-attrs";
/// The message's id.
pub const MSG_ID: &str = "x-msg-id";
/// What ties the message to what it belongs to; [`CORR_ID`] is the request's.
pub const MSG_CORR_ID: &str = "x-msg-corr-id";
/// What to acknowledge the delivery with.
pub const RECEIPT: &str = "x-receipt";
/// Which delivery it is, from 1.
pub const ATTEMPT: &str = "x-attempt";
/// When it was taken in.
pub const TS: &str = "x-ts";
/// The slice of the topic.
pub const SHARD: &str = "x-shard";
/// The hash of everything that does not change between deliveries.
pub const HASH_CHAIN: &str = "x-hash-chain";
/// Until when the delivery is held.
pub const VISIBLE_UNTIL: &str = "x-visible-until";
