//! How a command is scheduled.

use std::fmt;
use std::time::Duration;

use oncebox_core::{Error, Id, Invalid, Kind, Source, Trace, Uid};

use crate::message::Moment;

/// The longest idempotency key and tenant id.
const KEY_BYTES_MAX: usize = 1_000;

/// How a command is scheduled. Values that are out of bounds are told when it is; the idempotency key stays out of `Debug` output.
///
/// ```
/// # use std::time::Duration;
/// use oncebox::commands::ScheduleOptions;
///
/// let options = ScheduleOptions::default()
///     .idempotency_key("payment:17")
///     .visible_in(Duration::from_secs(60))
///     .correlation("checkout-4")
///     .tenant("acme");
/// ```
#[derive(Clone, Default)]
pub struct ScheduleOptions {
    pub(super) command_id: Option<Uid>,
    pub(super) idempotency_key: Option<String>,
    pub(super) visible_after: Option<Moment>,
    pub(super) trace: Trace,
    pub(super) strict: bool,
    problem: Option<Invalid>,
}

impl ScheduleOptions {
    /// The id that the command shall have; a new one if not set. Without an idempotency key it is what makes two submissions the
    /// same; with one it is only recorded. An id belongs to one command, whatever the tenant.
    #[must_use]
    pub fn command_id(mut self, id: Uid) -> Self {
        self.command_id = Some(id);
        self
    }

    /// What makes two submissions of a tenant the same: the second is answered with the receipt of the first. Up to 1,000 bytes; a
    /// blank one is none, and the command's own is used ([`Command::idempotency_key`](super::Command::idempotency_key)).
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// Not run before this moment.
    #[must_use]
    pub fn visible_at(mut self, moment: impl Into<Moment>) -> Self {
        self.visible_after = Some(moment.into());
        self
    }

    /// Not run before so much time has passed.
    #[must_use]
    pub fn visible_in(mut self, delay: Duration) -> Self {
        self.visible_after = Some(Moment::after(delay));
        self
    }

    /// The id of the whole story that the command belongs to.
    #[must_use]
    pub fn correlation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_correlation(id))
    }

    /// The id of what directly causes the command.
    #[must_use]
    pub fn causation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_causation(id))
    }

    /// The id of the tenant on whose behalf it is scheduled: idempotency keys of two tenants never meet.
    #[must_use]
    pub fn tenant(self, id: &str) -> Self {
        self.traced(|trace| trace.with_tenant(id))
    }

    /// A key that came before with another contract or another payload is a conflict, and the receipt says so.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    fn traced(mut self, with: impl FnOnce(Trace) -> Result<Trace, Invalid>) -> Self {
        match with(self.trace.clone()) {
            Ok(trace) => self.trace = trace,
            Err(invalid) => drop(self.problem.get_or_insert(invalid)),
        }
        self
    }

    /// The first value that is out of bounds.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.problem.clone().map_or(Ok(()), |invalid| Err(invalid.into()))
    }
}

impl fmt::Debug for ScheduleOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleOptions")
            .field("command_id", &self.command_id)
            .field("visible_after", &self.visible_after)
            .field("trace", &self.trace)
            .field("strict", &self.strict)
            .finish_non_exhaustive()
    }
}

/// The source of a tenant's keys; commands without a tenant have their own.
pub(super) fn source(trace: &Trace) -> Result<Source, Error> {
    match trace.tenant() {
        Some(tenant) => Ok(Source::new(bounded("tenant id", "tenant/", tenant)?)?),
        None => Ok(Source::new("no-tenant")?),
    }
}

/// The id of a command's key: what makes two submissions the same. Keys and command ids never meet.
pub(super) fn key_of(idempotency_key: &str) -> Result<Id, Error> {
    Ok(Id::new(bounded("idempotency key", "key/", idempotency_key)?)?)
}

/// The same for a command without an idempotency key.
pub(super) fn key_of_id(command_id: Uid) -> Result<Id, Error> {
    Ok(Id::new(format!("id/{command_id}"))?)
}

/// The idempotency key that a stored id was made of.
pub(super) fn idempotency_key(id: &Id) -> Option<&str> {
    id.as_str().strip_prefix("key/")
}

fn bounded(field: &str, prefix: &str, text: &str) -> Result<String, Error> {
    if text.len() > KEY_BYTES_MAX {
        let text = format!("{field} is {} bytes long, the limit is {KEY_BYTES_MAX}", text.len());
        return Err(Error::new(Kind::Invalid, text));
    }
    if text.contains('\0') {
        return Err(Error::new(Kind::Invalid, format!("{field} holds a NUL character: remove it")));
    }
    Ok(format!("{prefix}{text}"))
}
