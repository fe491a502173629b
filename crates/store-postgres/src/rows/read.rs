//! Rows read: a message with its lease as the machine knows it, and a delivery as a worker gets it.

use std::num::NonZeroU32;

use oncebox_core::{
    Attributes, Content, Delivery, Error, Fence, Grant, GrantEnd, Hold, Id, Keep, Key, LastError, Lease,
    Namespace, Number, Omitted, Owner, Partition, Payload, PayloadHandle, Policy, RequestId, Settled, Shard,
    Snapshot, Source, Timestamp, Topic, Uid, WorkerName,
};

use super::cells::{Cells, caller_hash, fingerprint, seal, trace};
use super::columns::{Kept, LeaseRow, Row, Shown};
use crate::codes::{
    DIVERGENCES, KINDS, REASONS, STATES, UNTIL_FINISHED, counted, damaged, duration, moment, named,
};
use crate::slow::Body;

/// What a payload is read as, and the attributes with it.
pub(crate) trait ReadContent: PayloadHandle {
    /// None if the message has no content.
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

/// The payload's size alone: the slow path changes content only as a whole.
impl ReadContent for Body {
    fn read(cells: &mut Cells<'_>) -> Result<Option<(Self, Attributes)>, Error> {
        Ok(cells.payload_bytes()?.map(|bytes| (Self::Stored { bytes }, Attributes::default())))
    }
}

pub(crate) fn fence(value: i64) -> Result<Fence, Error> {
    Ok(Fence::new(counted(value)?)?)
}

fn count(value: i32) -> Result<u32, Error> {
    u32::try_from(value).map_err(|_| damaged("has a negative count"))
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
    /// None if an outer join found none.
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

    /// As it stands with the lease that it has, if it has one.
    pub(crate) fn with(self, lease: Option<LeaseRow>) -> Result<Snapshot<P>, Error> {
        let Self { mut snapshot, superseded } = self;
        if let Some(row) = lease {
            let owner = Owner::new(row.owner.as_u128())?;
            snapshot.deliveries = snapshot.deliveries.saturating_add(1);
            snapshot.retry_at = None;
            snapshot.grant = Some(Grant {
                lease: Lease { owner, fence: fence(row.fence)?, until: moment(row.until) },
                extendable_until: moment(row.extend_max),
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
        let (mut shown, kept) = (Shown::read(cells)?, Kept::read(cells)?);
        let content = content(&mut shown, P::read(cells)?)?;
        let superseded = kept.superseded;
        let hash = caller_hash(shown.hash_name.as_deref(), shown.hash.as_deref())?;
        let correlation = shown.correlation.as_deref();
        let namespace = named(&Namespace::ALL, kept.namespace)?;
        let snapshot = Snapshot {
            uid: Uid::from_u128(shown.uid.as_u128()),
            number: Number(counted(shown.number)?),
            key: Key::new(namespace, Source::new(shown.source)?, Id::new(shown.id)?),
            keyed: kept.keyed,
            state: named(&STATES, kept.state)?,
            dead: kept.dead.map(|code| named(&REASONS, code)).transpose()?,
            content,
            fingerprint: fingerprint(shown.fingerprint.as_deref())?,
            hash,
            trace: trace(correlation, shown.causation.as_deref(), shown.tenant.as_deref())?,
            policy: policy(&kept)?,
            accepted_at: moment(shown.accepted_at),
            last_seen_at: moment(shown.last_seen_at),
            finished_at: kept.finished_at.map(moment),
            retry_at: kept.retry_at.map(moment),
            attempts: count(shown.attempts)?,
            deliveries: count(shown.deliveries)?,
            redrives: count(kept.redrives)?,
            last_error: shown.last_error.as_deref().and_then(LastError::new),
            grant: ended_grant(kept)?,
        };
        Ok(Self { snapshot, superseded })
    }
}

/// The content of a message, out of its row; none if it has no topic or no payload.
fn content<P>(shown: &mut Shown, body: Option<(P, Attributes)>) -> Result<Option<Content<P>>, Error> {
    let Some((topic, (payload, attributes))) = shown.topic.take().zip(body) else { return Ok(None) };
    Ok(Some(Content {
        topic: Topic::new(topic)?,
        shard: shard(shown.shard),
        partition: partition(shown.partition.take())?,
        payload,
        attributes,
        due: shown.due.map(moment),
        expires: shown.expires.map(moment),
        seal: seal(shown.seal.as_deref())?,
    }))
}

fn shard(shard: Option<i32>) -> Shard {
    Shard(shard.and_then(|shard| u16::try_from(shard).ok()).unwrap_or_default())
}

fn limit(attempts: Option<i32>) -> Option<NonZeroU32> {
    attempts.and_then(|max| u32::try_from(max).ok()).and_then(NonZeroU32::new)
}

fn policy(kept: &Kept) -> Result<Policy, Error> {
    let attempts_max = limit(kept.attempts_max);
    let keep = kept.keep_ms.map_or(Keep::Window, |millis| match millis {
        UNTIL_FINISHED => Keep::UntilFinished,
        millis => Keep::After(duration(millis)),
    });
    let hold = Hold { window: duration(kept.window_ms), keep };
    let divergence = named(&DIVERGENCES, kept.divergence)?;
    Ok(Policy { attempts_max, hold, divergence, keep_finished: kept.keep_finished })
}

/// The newest lease that has ended, if there was one.
fn ended_grant(kept: Kept) -> Result<Option<Grant>, Error> {
    let Some(owner) = kept.end_owner else { return Ok(None) };
    let at = |stamp: Option<i64>| stamp.map_or(Timestamp::EPOCH, moment);
    let owner = Owner::new(owner.as_u128())?;
    let end = match kept.end_kind.zip(kept.end_outcome) {
        None => GrantEnd::Lost,
        Some((kind, outcome)) => {
            let settled = match outcome {
                0 => Settled::Done,
                1 => Settled::Superseded,
                2 => Settled::Retrying { at: at(kept.end_retry_at) },
                3 => Settled::Released,
                4 => Settled::Dead { reason: named(&REASONS, kept.end_dead.unwrap_or(-1))? },
                _ => return Err(damaged("has an outcome that this version does not know")),
            };
            GrantEnd::Settled(named(&KINDS, kind)?, settled)
        }
    };
    Ok(Some(Grant {
        lease: Lease { owner, fence: fence(kept.end_fence)?, until: at(kept.end_until) },
        extendable_until: at(kept.end_limit),
        request: request(kept.end_request),
        attempts_max: None,
        worker: worker(kept.end_worker)?,
        partition: partition(kept.end_partition)?,
        superseded: kept.end_superseded,
        end: Some(end),
    }))
}

/// A message that has just been leased, or was before: reads `{delivery}`.
pub(crate) fn delivery(cells: &mut Cells<'_>, namespace: Namespace, lease: Lease) -> Result<Delivery, Error> {
    let mut shown = Shown::read(cells)?;
    let content = content(&mut shown, Payload::read(cells)?)?;
    let content = content.ok_or_else(|| damaged("was leased without a topic or a payload"))?;
    let fingerprint = fingerprint(shown.fingerprint.as_deref())?;
    let correlation = shown.correlation.as_deref();
    Ok(Delivery {
        uid: Uid::from_u128(shown.uid.as_u128()),
        number: Number(counted(shown.number)?),
        key: Key::new(namespace, Source::new(shown.source)?, Id::new(shown.id)?),
        content,
        fingerprint: fingerprint.ok_or_else(|| damaged("has content without a fingerprint"))?,
        hash: caller_hash(shown.hash_name.as_deref(), shown.hash.as_deref())?,
        trace: trace(correlation, shown.causation.as_deref(), shown.tenant.as_deref())?,
        accepted_at: moment(shown.accepted_at),
        last_seen_at: moment(shown.last_seen_at),
        attempts: count(shown.attempts)?,
        deliveries: count(shown.deliveries)?.saturating_add(1),
        last_error: shown.last_error.as_deref().and_then(LastError::new),
        lease,
    })
}
