//! Reads the cells of a row in order.

use oncebox_core::{Attributes, CallerHash, Error, Fingerprint, Payload, Seal, Timestamp, Trace};
use sqlx::postgres::PgRow;
use sqlx::{Decode, Postgres, Row, Type};
use uuid::Uuid;

use crate::codes::{corrupt_row, timestamp};
use crate::db_error;

/// The cells of a row, read in order.
pub(crate) struct Cells<'r> {
    row: &'r PgRow,
    next: usize,
}

impl<'r> Cells<'r> {
    pub(crate) fn new(row: &'r PgRow) -> Self {
        Self::after(row, 0)
    }

    /// Starts at cell `next`.
    pub(crate) fn after(row: &'r PgRow, next: usize) -> Self {
        Self { row, next }
    }

    pub(crate) fn next<T: Decode<'r, Postgres> + Type<Postgres>>(&mut self) -> Result<T, Error> {
        let cell = self.row.try_get(self.next);
        self.next += 1;
        cell.map_err(db_error::into_error)
    }

    /// Fails if the server is read-only: its data may be stale and is not used.
    pub(crate) fn check_writable(&mut self) -> Result<(), Error> {
        if self.next()? { Err(db_error::read_only()) } else { Ok(()) }
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, Error> {
        self.next().map(timestamp)
    }

    pub(crate) fn attributes(&mut self) -> Result<Attributes, Error> {
        let Some(json) = self.next::<Option<&str>>()? else { return Ok(Attributes::default()) };
        let pairs: std::collections::BTreeMap<String, String> =
            serde_json::from_str(json).map_err(|_| corrupt_row("has attributes that are not strings"))?;
        Ok(Attributes::new(pairs)?)
    }

    pub(crate) fn payload(&mut self) -> Result<Option<Payload>, Error> {
        let bytes: Option<Vec<u8>> = self.next()?;
        bytes.map(Payload::new).transpose().map_err(Error::from)
    }

    /// The size of a payload that was not read.
    pub(crate) fn payload_bytes(&mut self) -> Result<Option<u32>, Error> {
        let bytes: Option<i32> = self.next()?;
        Ok(bytes.map(|bytes| u32::try_from(bytes).unwrap_or_default()))
    }

    /// Whether an outer join found no row: the first column would be a uid.
    pub(crate) fn is_empty(&self) -> bool {
        self.row.try_get::<Option<Uuid>, _>(self.next).is_ok_and(|uid| uid.is_none())
    }
}

/// The trace ids of a message.
pub(super) fn trace(
    correlation: Option<&str>,
    causation: Option<&str>,
    tenant: Option<&str>,
) -> Result<Trace, Error> {
    let mut trace = Trace::default();
    if let Some(correlation) = correlation {
        trace = trace.with_correlation(correlation)?;
    }
    if let Some(causation) = causation {
        trace = trace.with_causation(causation)?;
    }
    if let Some(tenant) = tenant {
        trace = trace.with_tenant(tenant)?;
    }
    Ok(trace)
}

pub(super) fn caller_hash(name: Option<&str>, bytes: Option<&[u8]>) -> Result<Option<CallerHash>, Error> {
    Ok(name.zip(bytes).map(|(name, bytes)| CallerHash::new(name, bytes)).transpose()?)
}

pub(super) fn fingerprint(bytes: Option<&[u8]>) -> Result<Option<Fingerprint>, Error> {
    let Some(bytes) = bytes else { return Ok(None) };
    let bytes = bytes.try_into().map_err(|_| corrupt_row("has a fingerprint of the wrong length"))?;
    Ok(Some(Fingerprint::from_bytes(bytes)))
}

/// Reads the timestamp of a seal, then its chain.
pub(super) fn seal(bytes: Option<&[u8]>) -> Result<Option<Seal>, Error> {
    let Some(bytes) = bytes else { return Ok(None) };
    let parts = bytes.split_first_chunk().and_then(|(at, chain)| Some((*at, chain.try_into().ok()?)));
    let (at, chain) = parts.ok_or_else(|| corrupt_row("has a seal of the wrong length"))?;
    let at = Timestamp::from_millis(u64::from_be_bytes(at));
    Ok(Some(Seal { at, chain: Fingerprint::from_bytes(chain) }))
}
