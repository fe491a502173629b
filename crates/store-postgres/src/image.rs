//! Rows written: messages and leases as the machine left them, one array per column.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{
    Attributes, CallerHash, Grant, GrantEnd, LastError, Namespace, Partition, Settled, Snapshot, State,
    Timestamp,
};
use uuid::Uuid;

use crate::codes::{DIVERGENCES, KINDS, REASONS, STATES, code, count, key_hash, millis, namespace, stamp};
use crate::query::Query;

/// Where time and upkeep find a message; free shelves are ten higher.
pub(crate) mod shelf {
    pub(crate) const WAITING: i16 = 1;
    pub(crate) const DONE: i16 = 2;
    pub(crate) const DEAD: i16 = 3;
    pub(crate) const DEAD_LETTER: i16 = 4;
    pub(crate) const SEEN: i16 = 5;
    pub(crate) const FREE: i16 = 10;
}

macro_rules! arrays {
    ($(#[$doc:meta])* $name:ident { $($column:ident: $kind:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Default)]
        pub(crate) struct $name {
            $($column: Vec<$kind>,)*
        }

        impl $name {
            /// Binds every column, in this order.
            pub(crate) fn bind<'q>(
                &'q self,
                query: Query<'q>,
            ) -> Query<'q> {
                query$(.bind(&self.$column))*
            }
        }
    };
}

arrays!(
    /// Messages, in the columns of `update.sql` and `insert.sql`.
    Messages {
        uid: Uuid,
        number: i64,
        accepted_at: i64,
        last_seen_at: i64,
        finished_at: Option<i64>,
        retry_at: Option<i64>,
        due: Option<i64>,
        expires: Option<i64>,
        window_ms: i64,
        keep_ms: Option<i64>,
        shelf_at: Option<i64>,
        end_fence: i64,
        end_until: Option<i64>,
        end_limit: Option<i64>,
        end_retry_at: Option<i64>,
        attempts: i32,
        deliveries: i32,
        attempts_max: Option<i32>,
        shard: Option<i32>,
        namespace: i16,
        state: i16,
        dead: Option<i16>,
        divergence: i16,
        shelf: Option<i16>,
        end_kind: Option<i16>,
        end_outcome: Option<i16>,
        end_dead: Option<i16>,
        keyed: bool,
        keep_finished: bool,
        ready: bool,
        superseded: bool,
        end_superseded: bool,
        key_hash: Uuid,
        end_owner: Option<Uuid>,
        end_request: Option<Uuid>,
        source: String,
        id: String,
        topic: Option<String>,
        partition: Option<String>,
        end_partition: Option<String>,
        correlation: Option<String>,
        causation: Option<String>,
        tenant: Option<String>,
        hash_name: Option<String>,
        last_error: Option<String>,
        hash: Option<Vec<u8>>,
        fingerprint: Option<Vec<u8>>,
        attributes: Option<String>,
        payload: Option<Vec<u8>>,
    }
);

arrays!(
    /// Leases, in the columns of `lease_put.sql`.
    Leases {
        uid: Uuid,
        owner: Uuid,
        request: Option<Uuid>,
        fence: i64,
        until: i64,
        extend_max: i64,
        namespace: i16,
        in_flight: bool,
        partition: Option<String>,
    }
);

pub(crate) fn small(value: u32) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

fn owned(text: Option<&str>) -> Option<String> {
    text.map(str::to_owned)
}

/// As JSON; none if there are none.
pub(crate) fn attributes(attributes: &Attributes) -> Option<String> {
    let pairs: std::collections::BTreeMap<_, _> = attributes.iter().collect();
    // A map of texts can always be written.
    (!pairs.is_empty()).then(|| serde_json::to_string(&pairs).unwrap_or_default())
}

impl Messages {
    pub(crate) fn len(&self) -> usize {
        self.uid.len()
    }

    pub(crate) fn key_hashes(&self) -> &[Uuid] {
        &self.key_hash
    }

    /// Adds a message as it stands at `now`.
    pub(crate) fn push(&mut self, message: &Snapshot, now: Timestamp) {
        let leased = message.lease().is_some();
        let (place, looked_at) = shelved(message, now).unzip();
        self.uid.push(Uuid::from_u128(message.uid.as_u128()));
        self.number.push(count(message.number.0));
        self.accepted_at.push(stamp(message.accepted_at));
        self.last_seen_at.push(stamp(message.last_seen_at));
        self.finished_at.push(message.finished_at.map(stamp));
        self.retry_at.push(message.retry_at.map(stamp));
        self.window_ms.push(millis(message.policy.hold.window));
        self.keep_ms.push(message.policy.hold.keep.map(millis));
        self.shelf_at.push(looked_at.map(stamp));
        self.attempts.push(small(message.attempts));
        self.deliveries.push(small(message.deliveries.saturating_sub(u32::from(leased))));
        self.attempts_max.push(message.policy.attempts_max.map(|max| small(max.get())));
        self.namespace.push(namespace(message.key.namespace));
        self.state.push(code(&STATES, message.state));
        self.dead.push(message.dead.map(|dead| code(&REASONS, dead)));
        self.divergence.push(code(&DIVERGENCES, message.policy.divergence));
        self.shelf.push(place);
        self.keyed.push(message.keyed);
        self.keep_finished.push(message.policy.keep_finished);
        self.ready.push(is_ready(message, now));
        self.superseded
            .push(message.grant.as_ref().is_some_and(|grant| grant.end.is_none() && grant.superseded));
        self.key_hash.push(key_hash(&message.key));
        self.source.push(message.key.source.as_str().to_owned());
        self.id.push(message.key.id.as_str().to_owned());
        self.correlation.push(owned(message.trace.correlation()));
        self.causation.push(owned(message.trace.causation()));
        self.tenant.push(owned(message.trace.tenant()));
        self.hash_name.push(owned(message.hash.as_ref().map(CallerHash::algorithm)));
        self.hash.push(message.hash.as_ref().map(|hash| hash.as_bytes().to_vec()));
        self.last_error.push(owned(message.last_error.as_ref().map(LastError::as_str)));
        self.fingerprint.push(message.fingerprint.map(|fingerprint| fingerprint.as_bytes().to_vec()));
        self.push_content(message);
        self.push_end(message.grant.as_ref().filter(|grant| grant.end.is_some()));
    }

    fn push_content(&mut self, message: &Snapshot) {
        let content = message.content.as_ref();
        self.due.push(content.and_then(|content| content.due).map(stamp));
        self.expires.push(content.and_then(|content| content.expires).map(stamp));
        self.shard.push(content.map(|content| i32::from(content.shard.0)));
        self.topic.push(owned(content.map(|content| content.topic.as_str())));
        let partition = content.and_then(|content| content.partition.as_ref());
        self.partition.push(owned(partition.map(Partition::as_str)));
        self.attributes.push(content.and_then(|content| attributes(&content.attributes)));
        self.payload.push(content.map(|content| content.payload.as_bytes().to_vec()));
    }

    fn push_end(&mut self, grant: Option<&Grant>) {
        let settled = match grant.and_then(|grant| grant.end) {
            Some(GrantEnd::Settled(kind, outcome)) => Some((kind, outcome)),
            Some(GrantEnd::Lost) | None => None,
        };
        let (kind, outcome) = settled.unzip();
        let (mut retry_at, mut dead) = (None, None);
        let outcome = outcome.map(|outcome| match outcome {
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
        });
        self.end_kind.push(kind.map(|kind| code(&KINDS, kind)));
        self.end_outcome.push(outcome);
        self.end_dead.push(dead);
        self.end_retry_at.push(retry_at);
        self.end_fence.push(grant.map_or(0, |grant| count(grant.lease.fence.get())));
        self.end_until.push(grant.map(|grant| stamp(grant.lease.until)));
        self.end_limit.push(grant.map(|grant| stamp(grant.extendable_until)));
        self.end_owner.push(grant.map(|grant| Uuid::from_u128(grant.lease.owner.as_u128())));
        self.end_request.push(grant.and_then(|grant| grant.request).map(|id| Uuid::from_u128(id.as_u128())));
        self.end_partition
            .push(owned(grant.and_then(|grant| grant.partition.as_ref()).map(Partition::as_str)));
        self.end_superseded.push(grant.is_some_and(|grant| grant.superseded));
    }
}

impl Leases {
    pub(crate) fn is_empty(&self) -> bool {
        self.uid.is_empty()
    }

    /// Adds the lease that a message has.
    pub(crate) fn push(&mut self, message: &Snapshot, grant: &Grant) {
        self.uid.push(Uuid::from_u128(message.uid.as_u128()));
        self.owner.push(Uuid::from_u128(grant.lease.owner.as_u128()));
        self.request.push(grant.request.map(|id| Uuid::from_u128(id.as_u128())));
        self.fence.push(count(grant.lease.fence.get()));
        self.until.push(stamp(grant.lease.until));
        self.extend_max.push(stamp(grant.extendable_until));
        self.namespace.push(namespace(message.key.namespace));
        self.in_flight.push(message.state == State::Processing);
        self.partition.push(owned(grant.partition.as_ref().map(Partition::as_str)));
    }
}

/// Whether it stands in its lane; a lease keeps it from being claimed, not from standing there.
fn is_ready(message: &Snapshot, now: Timestamp) -> bool {
    message.state == State::Processing
        && message.content.as_ref().is_some_and(|content| content.due.is_none_or(|due| due <= now))
        && message.retry_at.is_none_or(|at| at <= now)
}

/// The shelf that a message is on, and when it is looked at there.
fn shelved(message: &Snapshot, now: Timestamp) -> Option<(i16, Timestamp)> {
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
