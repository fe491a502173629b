//! Rows read: a message with its lease, as the machine knows it.

use std::num::NonZeroU32;

use oncebox_core::{
    Attributes, CallerHash, Content, Error, Fence, Fingerprint, Grant, GrantEnd, Hold, Id, Key, LastError,
    Lease, Namespace, Number, Omitted, Owner, Partition, Payload, PayloadHandle, Policy, RequestId, Settled,
    Shard, Snapshot, Source, Timestamp, Topic, Trace, Uid,
};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};
use uuid::Uuid;

use crate::codes::{DIVERGENCES, KINDS, REASONS, STATES, counted, damaged, duration, moment, named};
use crate::fault;

/// The cells of a row, one after another.
pub(crate) struct Cells<'r> {
    row: &'r PgRow,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn new(row: &'r PgRow) -> Self {
        Self::after(row, 0)
    }

    /// Without the first ones.
    pub(crate) fn after(row: &'r PgRow, next: usize) -> Self {
        Self { row, next }
    }

    pub(crate) fn next<T: Decode<'r, Postgres> + Type<Postgres>>(&mut self) -> Result<T, Error> {
        let cell = self.row.try_get(self.next);
        self.next += 1;
        cell.map_err(fault::told)
    }

    pub(crate) fn moment(&mut self) -> Result<Timestamp, Error> {
        self.next().map(moment)
    }

    pub(crate) fn maybe_moment(&mut self) -> Result<Option<Timestamp>, Error> {
        Ok(self.next::<Option<i64>>()?.map(moment))
    }

    pub(crate) fn count(&mut self) -> Result<u32, Error> {
        u32::try_from(self.next::<i32>()?).map_err(|_| damaged("has a negative count"))
    }

    pub(crate) fn text<T>(
        &mut self,
        new: impl FnOnce(String) -> Result<T, oncebox_core::Invalid>,
    ) -> Result<Option<T>, Error> {
        Ok(self.next::<Option<String>>()?.map(new).transpose()?)
    }

    pub(crate) fn trace(&mut self) -> Result<Trace, Error> {
        let mut trace = Trace::default();
        if let Some(correlation) = self.next::<Option<&str>>()? {
            trace = trace.with_correlation(correlation)?;
        }
        if let Some(causation) = self.next::<Option<&str>>()? {
            trace = trace.with_causation(causation)?;
        }
        if let Some(tenant) = self.next::<Option<&str>>()? {
            trace = trace.with_tenant(tenant)?;
        }
        Ok(trace)
    }

    /// The hash's name, the last error, and the hash.
    pub(crate) fn hash_and_error(&mut self) -> Result<(Option<CallerHash>, Option<LastError>), Error> {
        let name: Option<String> = self.next()?;
        let last_error = self.next::<Option<&str>>()?.and_then(LastError::new);
        let hash = name.zip(self.next::<Option<&[u8]>>()?);
        Ok((hash.map(|(name, bytes)| CallerHash::new(&name, bytes)).transpose()?, last_error))
    }

    pub(crate) fn fingerprint(&mut self) -> Result<Option<Fingerprint>, Error> {
        let Some(bytes) = self.next::<Option<&[u8]>>()? else { return Ok(None) };
        let bytes = bytes.try_into().map_err(|_| damaged("has a fingerprint of the wrong length"))?;
        Ok(Some(Fingerprint::from_bytes(bytes)))
    }

    pub(crate) fn attributes(&mut self) -> Result<Attributes, Error> {
        let Some(json) = self.next::<Option<&str>>()? else { return Ok(Attributes::default()) };
        let pairs: std::collections::BTreeMap<String, String> =
            serde_json::from_str(json).map_err(|_| damaged("has attributes that are not texts"))?;
        Ok(Attributes::new(pairs)?)
    }

    pub(crate) fn payload(&mut self) -> Result<Option<Payload>, Error> {
        let bytes: Option<Vec<u8>> = self.next()?;
        bytes.map(Payload::new).transpose().map_err(Error::from)
    }

    /// Whether the message is there: an outer join may have found none.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.try_get::<Option<Uuid>, _>(self.next).is_ok_and(|uid| uid.is_none())
    }
}

/// What a payload is read as.
pub(crate) trait Cell: PayloadHandle {
    /// None if the message has no content.
    fn read(cells: &mut Cells<'_>) -> Result<Option<Self>, Error>;
}

impl Cell for Payload {
    fn read(cells: &mut Cells<'_>) -> Result<Option<Self>, Error> {
        cells.payload()
    }
}

impl Cell for Omitted {
    fn read(cells: &mut Cells<'_>) -> Result<Option<Self>, Error> {
        let bytes: Option<i32> = cells.next()?;
        Ok(bytes.map(|bytes| Self { bytes: u32::try_from(bytes).unwrap_or_default() }))
    }
}

/// A lease as its table has it.
pub(crate) struct LeaseRow {
    pub(crate) lease: Lease,
    request: Option<RequestId>,
    extend_max: Timestamp,
    partition: Option<Partition>,
}

impl LeaseRow {
    /// Owner, request, fence, end, limit and partition; none if an outer join found none.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Option<Self>, Error> {
        let Some(owner) = cells.next::<Option<Uuid>>()? else { return Ok(None) };
        let request: Option<Uuid> = cells.next()?;
        let fence = fence(cells.next()?)?;
        let (until, extend_max) = (cells.moment()?, cells.moment()?);
        let partition = cells.text(Partition::new)?;
        let request = request.map(|request| RequestId::from_u128(request.as_u128()));
        let lease = Lease { owner: Owner::new(owner.as_u128())?, fence, until };
        Ok(Some(Self { lease, request, extend_max, partition }))
    }
}

pub(crate) fn fence(value: i64) -> Result<Fence, Error> {
    Ok(Fence::new(counted(value)?)?)
}

/// The columns of a message, as they stand.
struct Columns<P> {
    snapshot: Snapshot<P>,
    superseded: bool,
}

/// A message without its lease.
pub(crate) struct Message<P>(Columns<P>);

impl<P: Cell> Message<P> {
    pub(crate) fn uid(&self) -> Uid {
        self.0.snapshot.uid
    }

    /// As it stands with the lease that it has, if it has one.
    pub(crate) fn with(self, lease: Option<LeaseRow>) -> Snapshot<P> {
        let Columns { mut snapshot, superseded } = self.0;
        if let Some(LeaseRow { lease, request, extend_max, partition }) = lease {
            snapshot.deliveries = snapshot.deliveries.saturating_add(1);
            snapshot.retry_at = None;
            snapshot.grant = Some(Grant {
                lease,
                extendable_until: extend_max,
                request,
                partition,
                superseded,
                end: None,
            });
        }
        snapshot
    }

    /// Reads [`crate::sql`]'s columns.
    pub(crate) fn read(cells: &mut Cells<'_>) -> Result<Self, Error> {
        let uid = Uid::from_u128(cells.next::<Uuid>()?.as_u128());
        let number = Number(counted(cells.next()?)?);
        let (accepted_at, last_seen_at) = (cells.moment()?, cells.moment()?);
        let (finished_at, retry_at) = (cells.maybe_moment()?, cells.maybe_moment()?);
        let (due, expires) = (cells.maybe_moment()?, cells.maybe_moment()?);
        let window = duration(cells.next()?);
        let keep = cells.next::<Option<i64>>()?.map(duration);
        let end = End::start(cells)?;
        let (attempts, deliveries) = (cells.count()?, cells.count()?);
        let attempts_max: Option<i32> = cells.next()?;
        let attempts_max = attempts_max.and_then(|max| u32::try_from(max).ok()).and_then(NonZeroU32::new);
        let shard: Option<i32> = cells.next()?;
        let namespace = named(&Namespace::ALL, cells.next()?)?;
        let state = named(&STATES, cells.next()?)?;
        let dead = cells.next::<Option<i16>>()?.map(|code| named(&REASONS, code)).transpose()?;
        let divergence = named(&DIVERGENCES, cells.next()?)?;
        let end = end.outcome(cells)?;
        let (keyed, keep_finished, superseded) = (cells.next()?, cells.next()?, cells.next()?);
        let end = end.holder(cells)?;
        let source = Source::new(cells.next::<String>()?)?;
        let id = Id::new(cells.next::<String>()?)?;
        let topic = cells.text(Topic::new)?;
        let partition = cells.text(Partition::new)?;
        let grant = end.grant(cells.text(Partition::new)?)?;
        let trace = cells.trace()?;
        let (hash, last_error) = cells.hash_and_error()?;
        let fingerprint = cells.fingerprint()?;
        let attributes = cells.attributes()?;
        let payload = P::read(cells)?;
        let shard = Shard(shard.and_then(|shard| u16::try_from(shard).ok()).unwrap_or_default());
        let content = topic.zip(payload).map(|(topic, payload)| Content {
            topic,
            shard,
            partition,
            payload,
            attributes,
            due,
            expires,
        });
        let policy = Policy { attempts_max, hold: Hold { window, keep }, divergence, keep_finished };
        let key = Key::new(namespace, source, id);
        Ok(Self(Columns {
            superseded,
            snapshot: Snapshot {
                uid,
                number,
                key,
                keyed,
                state,
                dead,
                content,
                fingerprint,
                hash,
                trace,
                policy,
                accepted_at,
                last_seen_at,
                finished_at,
                retry_at,
                attempts,
                deliveries,
                last_error,
                grant,
            },
        }))
    }
}

/// The newest lease that has ended, as far as it has been read.
struct End {
    fence: u64,
    until: Timestamp,
    limit: Timestamp,
    retry_at: Timestamp,
    how: GrantEnd,
    superseded: bool,
    owner: Option<Owner>,
    request: Option<RequestId>,
}

impl End {
    fn start(cells: &mut Cells<'_>) -> Result<Self, Error> {
        let fence = counted(cells.next()?)?;
        let mut at = || Ok::<_, Error>(cells.maybe_moment()?.unwrap_or(Timestamp::EPOCH));
        let (until, limit, retry_at) = (at()?, at()?, at()?);
        let (owner, request) = (None, None);
        Ok(Self { fence, until, limit, retry_at, how: GrantEnd::Lost, superseded: false, owner, request })
    }

    fn outcome(mut self, cells: &mut Cells<'_>) -> Result<Self, Error> {
        let (kind, outcome): (Option<i16>, Option<i16>) = (cells.next()?, cells.next()?);
        let reason: Option<i16> = cells.next()?;
        if let (Some(kind), Some(outcome)) = (kind, outcome) {
            let settled = match outcome {
                0 => Settled::Done,
                1 => Settled::Superseded,
                2 => Settled::Retrying { at: self.retry_at },
                3 => Settled::Released,
                4 => Settled::Dead { reason: named(&REASONS, reason.unwrap_or(-1))? },
                _ => return Err(damaged("has an outcome that this version does not know")),
            };
            self.how = GrantEnd::Settled(named(&KINDS, kind)?, settled);
        }
        Ok(self)
    }

    fn holder(mut self, cells: &mut Cells<'_>) -> Result<Self, Error> {
        self.superseded = cells.next()?;
        let owner: Option<Uuid> = cells.next()?;
        let request: Option<Uuid> = cells.next()?;
        self.owner = owner.map(|owner| Owner::new(owner.as_u128())).transpose()?;
        self.request = request.map(|request| RequestId::from_u128(request.as_u128()));
        Ok(self)
    }

    fn grant(self, partition: Option<Partition>) -> Result<Option<Grant>, Error> {
        let Some(owner) = self.owner else { return Ok(None) };
        let lease = Lease { owner, fence: Fence::new(self.fence)?, until: self.until };
        Ok(Some(Grant {
            lease,
            extendable_until: self.limit,
            request: self.request,
            partition,
            superseded: self.superseded,
            end: Some(self.how),
        }))
    }
}
