//! Rows written: messages and leases as the machine left them, one array per column.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Attributes, CallerHash, Grant, GrantEnd, LastError, Namespace, Partition, Seal, Settled, Snapshot, State,
    Timestamp, WorkerName,
};
use uuid::Uuid;

use super::columns::{ContentGiven, Kept, LeaseRow, MessageArrays, Shown};
use crate::codes::{
    DIVERGENCES, KINDS, REASONS, STATES, code, count, keep_ms, key_hash, millis, namespace, stamp,
};
use crate::slow::Body;

/// Where time and upkeep find a message; free shelves are ten higher.
pub(crate) mod shelf {
    pub(crate) const WAITING: i16 = 1;
    pub(crate) const DONE: i16 = 2;
    pub(crate) const DEAD: i16 = 3;
    pub(crate) const DEAD_LETTER: i16 = 4;
    pub(crate) const SEEN: i16 = 5;
    pub(crate) const FREE: i16 = 10;
}

pub(super) fn small(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// As JSON; none if there are none.
pub(super) fn attributes(attributes: &Attributes) -> Option<String> {
    let pairs: std::collections::BTreeMap<_, _> = attributes.iter().collect();
    // A map of texts can always be written.
    (!pairs.is_empty()).then(|| serde_json::to_string(&pairs).unwrap_or_default())
}

/// The moment as eight bytes, the largest first, then the chain.
pub(super) fn seal(seal: &Seal) -> Vec<u8> {
    [&seal.at.as_millis().to_be_bytes()[..], seal.chain.as_bytes()].concat()
}

/// Adds a message as it stands at `now`.
pub(crate) fn push_message(arrays: &mut MessageArrays, message: &Snapshot<Body>, now: Timestamp) {
    arrays.push(shown(message), kept(message, now), content(message));
}

fn shown(message: &Snapshot<Body>) -> Shown {
    let leased = message.lease().is_some();
    let content = message.content.as_ref();
    Shown {
        uid: Uuid::from_u128(message.uid.as_u128()),
        number: count(message.number.0),
        accepted_at: stamp(message.accepted_at),
        last_seen_at: stamp(message.last_seen_at),
        due: content.and_then(|content| content.due).map(stamp),
        expires: content.and_then(|content| content.expires).map(stamp),
        attempts: small(message.attempts),
        deliveries: small(message.deliveries.saturating_sub(u32::from(leased))),
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

fn kept(message: &Snapshot<Body>, now: Timestamp) -> Kept {
    let (shelf, shelf_at) = shelved(message, now).unzip();
    let current = message.grant.as_ref().filter(|grant| grant.end.is_none());
    let ended = message.grant.as_ref().filter(|grant| grant.end.is_some());
    let End { kind, outcome, dead, retry_at } = ended.map(end).unwrap_or_default();
    Kept {
        finished_at: message.finished_at.map(stamp),
        retry_at: message.retry_at.map(stamp),
        window_ms: millis(message.policy.hold.window),
        keep_ms: keep_ms(message.policy.hold.keep),
        shelf_at: shelf_at.map(stamp),
        attempts_max: message.policy.attempts_max.map(|max| small(max.get())),
        redrives: small(message.redrives),
        namespace: namespace(message.key.namespace),
        state: code(&STATES, message.state),
        dead: message.dead.map(|dead| code(&REASONS, dead)),
        divergence: code(&DIVERGENCES, message.policy.divergence),
        shelf,
        keyed: message.keyed,
        keep_finished: message.policy.keep_finished,
        ready: is_ready(message, now),
        superseded: current.is_some_and(|grant| grant.superseded),
        key_hash: key_hash(&message.key),
        end_fence: ended.map_or(0, |grant| count(grant.lease.fence.get())),
        end_until: ended.map(|grant| stamp(grant.lease.until)),
        end_limit: ended.map(|grant| stamp(grant.extendable_until)),
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

/// Content that is stored already is not written again.
fn content(message: &Snapshot<Body>) -> ContentGiven {
    let content = message.content.as_ref().map(|content| (&content.payload, &content.attributes));
    let (content_stays, given) = match content {
        None => (false, None),
        Some((Body::Stored { .. }, _)) => (true, None),
        Some((Body::New(payload), names)) => (false, Some((attributes(names), payload.as_bytes().to_vec()))),
    };
    let (attributes, payload) = given.unzip();
    ContentGiven { content_stays, attributes: attributes.flatten(), payload }
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
            retry_at = Some(stamp(at));
            2
        }
        Settled::Released => 3,
        Settled::Dead { reason } => {
            dead = Some(code(&REASONS, reason));
            4
        }
        _ => unreachable!("a settlement that did not count ends nothing"),
    };
    End { kind: Some(code(&KINDS, kind)), outcome: Some(outcome), dead, retry_at }
}

/// The lease that a message has.
pub(crate) fn lease_row(message: &Snapshot<Body>, grant: &Grant) -> LeaseRow {
    LeaseRow {
        uid: Uuid::from_u128(message.uid.as_u128()),
        owner: Uuid::from_u128(grant.lease.owner.as_u128()),
        request: grant.request.map(|id| Uuid::from_u128(id.as_u128())),
        fence: count(grant.lease.fence.get()),
        until: stamp(grant.lease.until),
        extend_max: stamp(grant.extendable_until),
        attempts_max: grant.attempts_max.map(|max| small(max.get())),
        worker: owned(grant.worker.as_ref().map(WorkerName::as_str)),
        namespace: namespace(message.key.namespace),
        in_flight: message.state == State::Processing,
        partition: owned(grant.partition.as_ref().map(Partition::as_str)),
    }
}

/// Whether it stands in its lane; a lease keeps it from being claimed, not from standing there.
fn is_ready(message: &Snapshot<Body>, now: Timestamp) -> bool {
    message.state == State::Processing
        && message.content.as_ref().is_some_and(|content| content.due.is_none_or(|due| due <= now))
        && message.retry_at.is_none_or(|at| at <= now)
}

/// The shelf that a message is on, and the moment at which upkeep takes it up there.
fn shelved(message: &Snapshot<Body>, now: Timestamp) -> Option<(i16, Timestamp)> {
    if message.lease().is_some() {
        return None;
    }
    let promised = if message.keyed { message.dedup_until() } else { Timestamp::EPOCH };
    let finished = message.finished_at.map_or(promised, |at| promised.max(at.after(REPEAT_WINDOW)));
    match message.state {
        State::Seen => Some((shelf::SEEN, promised)),
        State::Done => Some((shelf::DONE, finished)),
        State::Dead if message.key.namespace == Namespace::Mailbox => Some((shelf::DEAD_LETTER, finished)),
        State::Dead => Some((shelf::DEAD, finished)),
        _ => {
            let content = message.content.as_ref()?;
            let claimable = content.due.into_iter().chain(message.retry_at).max().filter(|at| *at > now);
            claimable.into_iter().chain(content.expires).min().map(|at| (shelf::WAITING, at))
        }
    }
}
