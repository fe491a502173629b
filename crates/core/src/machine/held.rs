//! The newest lease of a message as it lies in memory: small, because finished messages keep it for a while.

use std::num::NonZeroU32;

use crate::id::RequestId;
use crate::message::{Grant, GrantEnd, Lease};
use crate::text::Partition;
use crate::time::Timestamp;

/// A [`Grant`], with what most of them do not have set apart.
pub(super) struct Held {
    pub(super) lease: Lease,
    pub(super) extendable_until: Timestamp,
    pub(super) end: Option<GrantEnd>,
    pub(super) superseded: bool,
    /// The claimer's limit of attempts, while it is current.
    pub(super) attempts_max: Option<NonZeroU32>,
    rare: Option<Box<Rare>>,
}

struct Rare {
    request: Option<RequestId>,
    partition: Option<Partition>,
}

impl Held {
    /// A lease that has just been granted.
    pub(super) fn new(
        lease: Lease,
        extendable_until: Timestamp,
        request: Option<RequestId>,
        partition: Option<Partition>,
    ) -> Self {
        let rare = request.is_some() || partition.is_some();
        let rare = rare.then(|| Box::new(Rare { request, partition }));
        Self { lease, extendable_until, end: None, superseded: false, attempts_max: None, rare }
    }

    /// The claim call that got it.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.rare.as_ref()?.request
    }

    /// The partition that it keeps busy.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.rare.as_ref()?.partition.as_ref()
    }
}

impl From<&Grant> for Held {
    fn from(grant: &Grant) -> Self {
        let Grant { lease, extendable_until, request, attempts_max, partition, superseded, end } = grant;
        let held = Self::new(*lease, *extendable_until, *request, partition.clone());
        Self { end: *end, superseded: *superseded, attempts_max: *attempts_max, ..held }
    }
}

impl From<&Held> for Grant {
    fn from(held: &Held) -> Self {
        Self {
            lease: held.lease,
            extendable_until: held.extendable_until,
            request: held.request(),
            attempts_max: held.attempts_max,
            partition: held.partition().cloned(),
            superseded: held.superseded,
            end: held.end,
        }
    }
}
