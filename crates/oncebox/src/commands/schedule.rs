//! Options for scheduling a command, and the keys that identify duplicates.

use std::fmt;
use std::time::Duration;

use oncebox_core::{Error, ErrorKind, Id, Invalid, Source, Trace, Uid};

use crate::message::Moment;

/// Maximum length of an idempotency key and of a tenant id.
const KEY_BYTES_MAX: usize = 1_000;

/// Options for scheduling a command. Scheduling fails if a value is out of bounds. `Debug` output leaves out the
/// idempotency key.
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
    invalid: Option<Invalid>,
}

impl ScheduleOptions {
    /// Sets the id of the command. Default: a new id. Without an idempotency key, the id identifies duplicates; with
    /// one, it is only recorded. Ids are unique across all tenants.
    #[must_use]
    pub fn command_id(mut self, id: Uid) -> Self {
        self.command_id = Some(id);
        self
    }

    /// Sets the key that identifies duplicates within a tenant: scheduling it again returns the receipt of the first
    /// command. At most 1,000 bytes. A blank key counts as none; then
    /// [`Command::idempotency_key`](super::Command::idempotency_key) is used.
    #[must_use]
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// The command does not run before this time.
    #[must_use]
    pub fn visible_at(mut self, moment: impl Into<Moment>) -> Self {
        self.visible_after = Some(moment.into());
        self
    }

    /// The command does not run before this delay has passed.
    #[must_use]
    pub fn visible_in(mut self, delay: Duration) -> Self {
        self.visible_after = Some(Moment::after(delay));
        self
    }

    /// Sets the correlation id: the id of the business process that the command belongs to.
    #[must_use]
    pub fn correlation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_correlation(id))
    }

    /// Sets the causation id: the id of the message or command that directly causes this one.
    #[must_use]
    pub fn causation(self, id: &str) -> Self {
        self.traced(|trace| trace.with_causation(id))
    }

    /// Sets the tenant id. Idempotency keys of different tenants are independent.
    #[must_use]
    pub fn tenant(self, id: &str) -> Self {
        self.traced(|trace| trace.with_tenant(id))
    }

    /// Makes it a conflict if the key was used before with another contract or payload; the receipt reports
    /// [`ScheduleOutcome::Conflict`](super::ScheduleOutcome::Conflict).
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    fn traced(mut self, with: impl FnOnce(Trace) -> Result<Trace, Invalid>) -> Self {
        match with(self.trace.clone()) {
            Ok(trace) => self.trace = trace,
            Err(invalid) => drop(self.invalid.get_or_insert(invalid)),
        }
        self
    }

    /// Returns the first value that is out of bounds as an error.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.invalid.clone().map_or(Ok(()), |invalid| Err(invalid.into()))
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

/// The source under which a tenant's keys are stored; commands without a tenant have a separate one.
pub(super) fn source(trace: &Trace) -> Result<Source, Error> {
    match trace.tenant() {
        Some(tenant) => Ok(Source::new(bounded("tenant id", "tenant/", tenant)?)?),
        None => Ok(Source::new("no-tenant")?),
    }
}

/// The stored id of an idempotency key. The prefix keeps it distinct from command ids.
pub(super) fn key_of(idempotency_key: &str) -> Result<Id, Error> {
    Ok(Id::new(bounded("idempotency key", "key/", idempotency_key)?)?)
}

/// The stored id of a command without an idempotency key.
pub(super) fn key_of_id(command_id: Uid) -> Result<Id, Error> {
    Ok(Id::new(format!("id/{command_id}"))?)
}

/// The idempotency key in a stored id, if it has one.
pub(super) fn idempotency_key(id: &Id) -> Option<&str> {
    id.as_str().strip_prefix("key/")
}

fn bounded(field: &str, prefix: &str, text: &str) -> Result<String, Error> {
    if text.len() > KEY_BYTES_MAX {
        let text = format!("{field} is {} bytes long, the limit is {KEY_BYTES_MAX}", text.len());
        return Err(Error::new(ErrorKind::Invalid, text));
    }
    if text.contains('\0') {
        return Err(Error::new(ErrorKind::Invalid, format!("{field} contains a NUL character: remove it")));
    }
    Ok(format!("{prefix}{text}"))
}
