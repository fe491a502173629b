//! Reads rows: a message with its lease as the state machine expects it, and a delivery as a worker receives it.

use std::num::NonZeroU32;

use oncebox_core::{
    Attributes, Content, Delivery, Error, Fence, Grant, GrantEnd, Hold, Id, Keep, Key, LastError, Lease,
    Namespace, Number, Omitted, Owner, Partition, Payload, PayloadHandle, Policy, RequestId, Settled, Shard,
    Snapshot, Source, Timestamp, Topic, Uid, WorkerName,
};

use super::cells::{Cells, caller_hash, fingerprint, seal, trace};
use super::columns::{DeliveryColumns, InternalColumns, LeaseRow, Row};
use crate::codes::{
    DIVERGENCES, KINDS, REASONS, STATES, UNTIL_FINISHED, corrupt_row, duration, from_bigint, from_code,
    timestamp,
};
use oncebox_store_rows::Body;

/// How a payload and its attributes are read.
pub(crate) trait ReadContent: PayloadHandle {
    /// Returns `None` if the message has no content.
    fn read(cells: &mut Cells<'_>) -> Result<Option<(Self, Attributes)>, Error>;
}

/// `{content}`.
impl ReadContent for Payload {
    fn read(cells: &mut Cells<'_>) -> Result<Option<(Self, Attributes)>, Error> {
        let attributes = cells.attributes()?;
        Ok(cells.payload()?.map(|payload| (payload, attributes)))
    }
}

/// `{content_without_payload}`.
impl ReadContent for Omitted {
    fn read(cells: &mut Cells<'_>) -> Result<Option<(Self, Attributes)>, Error> {
        let attributes = cells.attributes()?;
        Ok(cells.payload_bytes()?.map(|bytes| (Self { bytes }, attributes)))
    }
}

/// Reads only the payload's size: the slow path replaces content only as a whole.
impl ReadContent for Body {
    fn read(cells: &mut Cells<'_>) -> Result<Option<(Self, Attributes)>, Error> {
        Ok(cells.payload_bytes()?.map(|bytes| (Self::Stored { bytes }, Attributes::default())))
    }
}

pub(crate) fn fence(value: i64) -> Result<Fence, Error> {
    Ok(Fence::new(from_bigint(value)?)?)
}

fn count(value: i32) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| corrupt_row("has a negative count"))
}

fn partition(name: Option<String>) -> Result<Option<Partition>, Error> {
    Ok(name.map(Partition::new).transpose()?)
}

fn worker(name: Option<String>) -> Result<Option<WorkerName>, Error> {
    Ok(name.map(WorkerName::new).transpose()?)
}

fn request(id: Option<uuid::Uuid>) -> Option<RequestId> {
    id.map(|id| RequestId::from_u128(id.as_u128()))
}

impl LeaseRow {
    /// Returns `None` if an outer join found no lease.
    pub(crate) fn read_if_any(cells: &mut Cells<'_>) -> Result<Option<Self>, Error> {
        if cells.is_empty() { Ok(None) } else { Self::read(cells).map(Some) }
    }
}

/// A message without its lease.
pub(crate) struct Message<P> {
    snapshot: Snapshot<P>,
    superseded: bool,
}

impl<P: ReadContent> Message<P> {
    pub(crate) fn uid(&self) -> Uid {
        self.snapshot.uid
    }

    /// Combines the message with its current lease, if it has one.
    pub(crate) fn with(self, lease: Option<LeaseRow>) -> Result<Snapshot<P>, Error> {
        let Self { mut snapshot, superseded } = self;
        if let Some(row) = lease {
            let owner = Owner::new(row.owner.as_u128())?;
            snapshot.deliveries = snapshot.deliveries.saturating_add(1);
            snapshot.retry_at = None;
            snapshot.grant = Some(Grant {
                lease: Lease { owner, fence: fence(row.fence)?, until: timestamp(row.until) },
                extendable_until: timestamp(row.extend_max),
                request: request(row.request),
                attempts_max: limit(row.attempts_max),
                worker: worker(row.worker)?,
                partition: partition(row.partition)?,
                superseded,
                end: None,
            });
        }
        Ok(snapshot)
    }

    /// Reads `{columns}` and the content.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Self, Error> {
        let (mut columns, internal) = (DeliveryColumns::read(cells)?, InternalColumns::read(cells)?);
        let content = content(&mut columns, P::read(cells)?)?;
        let superseded = internal.superseded;
        let hash = caller_hash(columns.hash_name.as_deref(), columns.hash.as_deref())?;
        let correlation = columns.correlation.as_deref();
        let namespace = from_code(&Namespace::ALL, internal.namespace)?;
        let snapshot = Snapshot {
            uid: Uid::from_u128(columns.uid.as_u128()),
            number: Number(from_bigint(columns.number)?),
            key: Key::new(namespace, Source::new(columns.source)?, Id::new(columns.id)?),
            keyed: internal.keyed,
            state: from_code(&STATES, internal.state)?,
            dead: internal.dead.map(|code| from_code(&REASONS, code)).transpose()?,
            content,
            fingerprint: fingerprint(columns.fingerprint.as_deref())?,
            hash,
            trace: trace(correlation, columns.causation.as_deref(), columns.tenant.as_deref())?,
            policy: policy(&internal)?,
            accepted_at: timestamp(columns.accepted_at),
            last_seen_at: timestamp(columns.last_seen_at),
            finished_at: internal.finished_at.map(timestamp),
            retry_at: internal.retry_at.map(timestamp),
            attempts: count(columns.attempts)?,
            deliveries: count(columns.deliveries)?,
            redrives: count(internal.redrives)?,
            last_error: columns.last_error.as_deref().and_then(LastError::new),
            grant: ended_grant(internal)?,
        };
        Ok(Self { snapshot, superseded })
    }
}

/// The content of a message from its row; `None` if it has no topic or no payload.
fn content<P>(
    columns: &mut DeliveryColumns,
    body: Option<(P, Attributes)>,
) -> Result<Option<Content<P>>, Error> {
    let Some((topic, (payload, attributes))) = columns.topic.take().zip(body) else { return Ok(None) };
    Ok(Some(Content {
        topic: Topic::new(topic)?,
        shard: shard(columns.shard),
        partition: partition(columns.partition.take())?,
        payload,
        attributes,
        due: columns.due.map(timestamp),
        expires: columns.expires.map(timestamp),
        seal: seal(columns.seal.as_deref())?,
    }))
}

fn shard(shard: Option<i32>) -> Shard {
    Shard(shard.and_then(|shard| u16::try_from(shard).ok()).unwrap_or_default())
}

fn limit(attempts: Option<i32>) -> Option<NonZeroU32> {
    attempts.and_then(|max| u32::try_from(max).ok()).and_then(NonZeroU32::new)
}

fn policy(internal: &InternalColumns) -> Result<Policy, Error> {
    let attempts_max = limit(internal.attempts_max);
    let keep = internal.keep_ms.map_or(Keep::Window, |millis| match millis {
        UNTIL_FINISHED => Keep::UntilFinished,
        millis => Keep::After(duration(millis)),
    });
    let hold = Hold { window: duration(internal.window_ms), keep };
    let divergence = from_code(&DIVERGENCES, internal.divergence)?;
    Ok(Policy { attempts_max, hold, divergence, keep_finished: internal.keep_finished })
}

/// The most recent lease that has ended, if any.
fn ended_grant(internal: InternalColumns) -> Result<Option<Grant>, Error> {
    let Some(owner) = internal.end_owner else { return Ok(None) };
    let at = |stamp: Option<i64>| stamp.map_or(Timestamp::EPOCH, timestamp);
    let owner = Owner::new(owner.as_u128())?;
    let end = match internal.end_kind.zip(internal.end_outcome) {
        None => GrantEnd::Lost,
        Some((kind, outcome)) => {
            let settled = match outcome {
                0 => Settled::Done,
                1 => Settled::Superseded,
                2 => Settled::Retrying { at: at(internal.end_retry_at) },
                3 => Settled::Released,
                4 => Settled::Dead { reason: from_code(&REASONS, internal.end_dead.unwrap_or(-1))? },
                _ => return Err(corrupt_row("has an outcome that this version does not know")),
            };
            GrantEnd::Settled(from_code(&KINDS, kind)?, settled)
        }
    };
    Ok(Some(Grant {
        lease: Lease { owner, fence: fence(internal.end_fence)?, until: at(internal.end_until) },
        extendable_until: at(internal.end_limit),
        request: request(internal.end_request),
        attempts_max: None,
        worker: worker(internal.end_worker)?,
        partition: partition(internal.end_partition)?,
        superseded: internal.end_superseded,
        end: Some(end),
    }))
}

/// Reads `{delivery}`: a message that has just been leased, or was leased by an earlier attempt of the claim.
pub(crate) fn delivery(cells: &mut Cells<'_>, namespace: Namespace, lease: Lease) -> Result<Delivery, Error> {
    let mut columns = DeliveryColumns::read(cells)?;
    let content = content(&mut columns, Payload::read(cells)?)?;
    let content = content.ok_or_else(|| corrupt_row("was leased without a topic or a payload"))?;
    let fingerprint = fingerprint(columns.fingerprint.as_deref())?;
    let correlation = columns.correlation.as_deref();
    Ok(Delivery {
        uid: Uid::from_u128(columns.uid.as_u128()),
        number: Number(from_bigint(columns.number)?),
        key: Key::new(namespace, Source::new(columns.source)?, Id::new(columns.id)?),
        content,
        fingerprint: fingerprint.ok_or_else(|| corrupt_row("has content without a fingerprint"))?,
        hash: caller_hash(columns.hash_name.as_deref(), columns.hash.as_deref())?,
        trace: trace(correlation, columns.causation.as_deref(), columns.tenant.as_deref())?,
        accepted_at: timestamp(columns.accepted_at),
        last_seen_at: timestamp(columns.last_seen_at),
        attempts: count(columns.attempts)?,
        deliveries: count(columns.deliveries)?.saturating_add(1),
        last_error: columns.last_error.as_deref().and_then(LastError::new),
        lease,
    })
}
