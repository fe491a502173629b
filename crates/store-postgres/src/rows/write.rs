//! Writes rows: messages and leases as the state machine left them, one array per column.

use oncebox_core::{
    Attributes, CallerHash, Grant, GrantEnd, LastError, MessageState, Namespace, Partition, Seal, Settled,
    Snapshot, Timestamp, WorkerName,
};
use uuid::Uuid;

use super::columns::{ContentInput, DeliveryColumns, InternalColumns, LeaseRow, MessageArrays};
use crate::codes::{
    DIVERGENCES, KINDS, REASONS, STATES, bigint, code, keep_ms, key_hash, millis, namespace, timestamp_ms,
};
use oncebox_store_rows::{Body, is_ready, next_timer, required_until};

/// The values of the column `maintenance_class`: why maintenance visits a message. Removable classes are 10 higher.
pub(crate) mod maintenance_class {
    pub(crate) const TIMER: i16 = 1;
    pub(crate) const DONE: i16 = 2;
    pub(crate) const DEAD: i16 = 3;
    pub(crate) const DEAD_LETTER: i16 = 4;
    pub(crate) const SEEN: i16 = 5;
    pub(crate) const REMOVABLE_OFFSET: i16 = 10;
}

pub(super) fn saturating_i32(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// Encodes attributes as JSON; `None` if there are none.
pub(super) fn attributes(attributes: &Attributes) -> Option<String> {
    let pairs: std::collections::BTreeMap<_, _> = attributes.iter().collect();
    // A map of strings can always be serialized.
    (!pairs.is_empty()).then(|| serde_json::to_string(&pairs).unwrap_or_default())
}

/// The timestamp as eight big-endian bytes, then the chain.
pub(super) fn seal(seal: &Seal) -> Vec<u8> {
    [&seal.at.as_millis().to_be_bytes()[..], seal.chain.as_bytes()].concat()
}

/// Adds a message in its state at `now`.
pub(crate) fn push_message(arrays: &mut MessageArrays, message: &Snapshot<Body>, now: Timestamp) {
    arrays.push(delivery_columns(message), internal_columns(message, now), content(message));
}

fn delivery_columns(message: &Snapshot<Body>) -> DeliveryColumns {
    let leased = message.lease().is_some();
    let content = message.content.as_ref();
    DeliveryColumns {
        uid: Uuid::from_u128(message.uid.as_u128()),
        number: bigint(message.number.0),
        accepted_at: timestamp_ms(message.accepted_at),
        last_seen_at: timestamp_ms(message.last_seen_at),
        due: content.and_then(|content| content.due).map(timestamp_ms),
        expires: content.and_then(|content| content.expires).map(timestamp_ms),
        attempts: saturating_i32(message.attempts),
        deliveries: saturating_i32(message.deliveries.saturating_sub(u32::from(leased))),
        shard: content.map(|content| i32::from(content.shard.0)),
        source: message.key.source.as_str().to_owned(),
        id: message.key.id.as_str().to_owned(),
        topic: owned(content.map(|content| content.topic.as_str())),
        partition: owned(content.and_then(|content| content.partition.as_ref()).map(Partition::as_str)),
        correlation: owned(message.trace.correlation()),
        causation: owned(message.trace.causation()),
        tenant: owned(message.trace.tenant()),
        hash_name: owned(message.hash.as_ref().map(CallerHash::algorithm)),
        last_error: owned(message.last_error.as_ref().map(LastError::as_str)),
        hash: message.hash.as_ref().map(|hash| hash.as_bytes().to_vec()),
        fingerprint: message.fingerprint.map(|fingerprint| fingerprint.as_bytes().to_vec()),
        seal: content.and_then(|content| content.seal.as_ref()).map(seal),
    }
}

fn internal_columns(message: &Snapshot<Body>, now: Timestamp) -> InternalColumns {
    let (maintenance_class, maintenance_at) = next_maintenance(message, now).unzip();
    let current = message.grant.as_ref().filter(|grant| grant.end.is_none());
    let ended = message.grant.as_ref().filter(|grant| grant.end.is_some());
    let End { kind, outcome, dead, retry_at } = ended.map(end).unwrap_or_default();
    InternalColumns {
        finished_at: message.finished_at.map(timestamp_ms),
        retry_at: message.retry_at.map(timestamp_ms),
        window_ms: millis(message.policy.hold.window),
        keep_ms: keep_ms(message.policy.hold.keep),
        maintenance_at: maintenance_at.map(timestamp_ms),
        attempts_max: message.policy.attempts_max.map(|max| saturating_i32(max.get())),
        redrives: saturating_i32(message.redrives),
        namespace: namespace(message.key.namespace),
        state: code(&STATES, message.state),
        dead: message.dead.map(|dead| code(&REASONS, dead)),
        divergence: code(&DIVERGENCES, message.policy.divergence),
        maintenance_class,
        keyed: message.keyed,
        keep_finished: message.policy.keep_finished,
        ready: is_ready(message, now),
        superseded: current.is_some_and(|grant| grant.superseded),
        key_hash: key_hash(&message.key),
        end_fence: ended.map_or(0, |grant| bigint(grant.lease.fence.get())),
        end_until: ended.map(|grant| timestamp_ms(grant.lease.until)),
        end_limit: ended.map(|grant| timestamp_ms(grant.extendable_until)),
        end_retry_at: retry_at,
        end_kind: kind,
        end_outcome: outcome,
        end_dead: dead,
        end_superseded: ended.is_some_and(|grant| grant.superseded),
        end_owner: ended.map(|grant| Uuid::from_u128(grant.lease.owner.as_u128())),
        end_request: ended.and_then(|grant| grant.request).map(|id| Uuid::from_u128(id.as_u128())),
        end_worker: owned(ended.and_then(|grant| grant.worker.as_ref()).map(WorkerName::as_str)),
        end_partition: owned(ended.and_then(|grant| grant.partition.as_ref()).map(Partition::as_str)),
    }
}

/// Content that is already stored is not written again.
fn content(message: &Snapshot<Body>) -> ContentInput {
    let content = message.content.as_ref().map(|content| (&content.payload, &content.attributes));
    let (content_unchanged, input) = match content {
        None => (false, None),
        Some((Body::Stored { .. }, _)) => (true, None),
        Some((Body::New(payload), names)) => (false, Some((attributes(names), payload.as_bytes().to_vec()))),
    };
    let (attributes, payload) = input.unzip();
    ContentInput { content_unchanged, attributes: attributes.flatten(), payload }
}

/// How a lease ended.
#[derive(Default)]
struct End {
    kind: Option<i16>,
    outcome: Option<i16>,
    dead: Option<i16>,
    retry_at: Option<i64>,
}

fn end(grant: &Grant) -> End {
    let Some(GrantEnd::Settled(kind, settled)) = grant.end else { return End::default() };
    let (mut retry_at, mut dead) = (None, None);
    let outcome = match settled {
        Settled::Done => 0,
        Settled::Superseded => 1,
        Settled::Retrying { at } => {
            retry_at = Some(timestamp_ms(at));
            2
        }
        Settled::Released => 3,
        Settled::Dead { reason } => {
            dead = Some(code(&REASONS, reason));
            4
        }
        _ => unreachable!("a rejected settlement ends no lease"),
    };
    End { kind: Some(code(&KINDS, kind)), outcome: Some(outcome), dead, retry_at }
}

/// The current lease of a message.
pub(crate) fn lease_row(message: &Snapshot<Body>, grant: &Grant) -> LeaseRow {
    LeaseRow {
        uid: Uuid::from_u128(message.uid.as_u128()),
        owner: Uuid::from_u128(grant.lease.owner.as_u128()),
        request: grant.request.map(|id| Uuid::from_u128(id.as_u128())),
        fence: bigint(grant.lease.fence.get()),
        until: timestamp_ms(grant.lease.until),
        extend_max: timestamp_ms(grant.extendable_until),
        attempts_max: grant.attempts_max.map(|max| saturating_i32(max.get())),
        worker: owned(grant.worker.as_ref().map(WorkerName::as_str)),
        namespace: namespace(message.key.namespace),
        in_flight: message.state == MessageState::Processing,
        partition: owned(grant.partition.as_ref().map(Partition::as_str)),
    }
}

/// The maintenance class of a message, and when maintenance visits it. Leases have their own index.
fn next_maintenance(message: &Snapshot<Body>, now: Timestamp) -> Option<(i16, Timestamp)> {
    if message.lease().is_some() {
        return None;
    }
    let Some(until) = required_until(message) else {
        return next_timer(message, now).map(|at| (maintenance_class::TIMER, at));
    };
    let class = match message.state {
        MessageState::Seen => maintenance_class::SEEN,
        MessageState::Done => maintenance_class::DONE,
        _ if message.key.namespace == Namespace::Mailbox => maintenance_class::DEAD_LETTER,
        _ => maintenance_class::DEAD,
    };
    Some((class, until))
}
