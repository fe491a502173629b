//! The operator's door, and dead letters.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Base64, Finding};

/// Which face of the store a message belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
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
#[serde(rename_all = "lowercase")]
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
#[serde(rename_all = "lowercase")]
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

/// Which end a listing begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Sort {
    /// The oldest first.
    #[default]
    Oldest,
    /// The newest first.
    Newest,
}

/// Which messages to list; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct List {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub state: Option<State>,
    /// Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub reason: Option<Reason>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// From this source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub source: Option<String>,
    /// The oldest first, if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub sort: Option<Sort>,
    /// So many at most: 1 to 1,000, 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Goes on where the last page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Which dead letters to list; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ListDead {
    /// Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub reason: Option<Reason>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// So many at most: 1 to 1,000, 100 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 1000))]
    pub limit: Option<u32>,
    /// Goes on where the last page ended: its `next`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// How to show a message; in the query of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct Show {
    /// With its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<bool>,
}

/// A key; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct ByKey {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// Its source; in the mailbox, its topic; in the ledger, not needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub source: Option<String>,
    /// Its id; in the mailbox, its idempotency key; in the ledger, its key.
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub id: String,
    /// With its payload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<bool>,
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
    /// Whether its key is still its own.
    pub keyed: bool,
    /// Until when a repeat of its key is known as such, at least; none while that depends on when it is handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedup_until: Option<String>,
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
    /// Until when.
    pub until: String,
}

/// Gives dead letters of the mailbox another chance: those named, or those that match.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Reprocess {
    /// These; up to 1,000. Then nothing else chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
    pub ids: Vec<String>,
    /// Only of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
    /// Only Dead for this reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// So many at most: 10,000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Tells how many match, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// Which messages a sweep changes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Namespace>,
    /// These; up to 1,000. Then nothing else chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "openapi", schema(max_items = 1000))]
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
    /// So many at most: 10,000 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 10000))]
    pub limit: Option<u32>,
    /// Tells how many match, and changes nothing.
    #[serde(default)]
    pub dry_run: bool,
    /// A purge must say `true` here, or be a dry run: nothing remains of what it erases.
    #[serde(default)]
    pub confirm: bool,
    /// Why, for the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Swept {
    /// Messages that matched, or were named and are there.
    pub matched: u64,
    /// Messages that were changed.
    pub changed: u64,
    /// Whether it only looked.
    pub dry_run: bool,
    /// Whether there may be more: the limit was reached.
    pub more: bool,
}

/// What to count; in the query of the address.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
#[serde(deny_unknown_fields)]
pub struct Count {
    /// Of this face; the mailbox if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(inline))]
    pub namespace: Option<Namespace>,
    /// Of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", param(min_length = 1, max_length = 1024, pattern = r"^[^\x00]+$"))]
    pub topic: Option<String>,
}

/// How many messages stand where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    /// Seen.
    pub seen: u64,
    /// To be delivered now.
    pub ready: u64,
    /// To be delivered later.
    pub waiting: u64,
    /// Delivered, and not settled yet.
    pub in_flight: u64,
    /// Handled, and not forgotten yet.
    pub done: u64,
    /// Given up.
    pub dead: u64,
    /// Whether the numbers are estimates.
    pub estimated: bool,
}

/// How the server and its store stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Stats {
    /// The server's version.
    pub version: String,
    /// For how long it runs, in seconds.
    pub uptime_seconds: u64,
    /// The store's name.
    pub store: String,
    /// `micronode` or `macronode`.
    pub profile: String,
    /// Whether nothing is kept on disk.
    pub amnesia: bool,
    /// `durable`, or `ephemeral`: then dead letters are gone with the process.
    pub dlq_profile: String,
    /// How requests prove who sends them: `none` or `bearer`.
    pub auth: String,
    /// The faces, each with its counts.
    pub namespaces: Vec<NamespaceCounts>,
    /// The bounds of the store.
    pub bounds: Vec<Bound>,
    /// Everything that somebody should know.
    pub findings: Vec<Finding>,
}

/// The counts of one face.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamespaceCounts {
    /// The face.
    pub namespace: Namespace,
    /// Its counts.
    pub counts: Counts,
}

/// A bound of the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Bound {
    /// Its name.
    pub name: String,
    /// So much is used.
    pub used: u64,
    /// So much may be used.
    pub limit: u64,
}
