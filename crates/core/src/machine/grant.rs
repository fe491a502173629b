//! The in-memory form of a message's newest lease: compact, because finished messages keep it for a while.

use std::num::NonZeroU32;

use crate::id::RequestId;
use crate::message::{Grant, GrantEnd, Lease};
use crate::text::Partition;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// A [`Grant`] with its rarely used fields boxed.
pub(super) struct StoredGrant {
    pub(super) lease: Lease,
    pub(super) extendable_until: Timestamp,
    pub(super) end: Option<GrantEnd>,
    pub(super) superseded: bool,
    /// The claimer's limit of attempts, while the lease is current.
    pub(super) attempts_max: Option<NonZeroU32>,
    rare: Option<Box<Rare>>,
}

struct Rare {
    request: Option<RequestId>,
    partition: Option<Partition>,
    worker: Option<WorkerName>,
}

impl StoredGrant {
    /// A lease that has just been granted.
    pub(super) fn new(
        lease: Lease,
        extendable_until: Timestamp,
        request: Option<RequestId>,
        partition: Option<Partition>,
        worker: Option<WorkerName>,
    ) -> Self {
        let rare = request.is_some() || partition.is_some() || worker.is_some();
        let rare = rare.then(|| Box::new(Rare { request, partition, worker }));
        Self { lease, extendable_until, end: None, superseded: false, attempts_max: None, rare }
    }

    /// The claim call that it was granted to.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.rare.as_ref()?.request
    }

    /// The name of the claiming worker.
    pub(super) fn worker(&self) -> Option<&WorkerName> {
        self.rare.as_ref()?.worker.as_ref()
    }

    /// The partition that it keeps busy.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.rare.as_ref()?.partition.as_ref()
    }
}

impl From<&Grant> for StoredGrant {
    fn from(grant: &Grant) -> Self {
        let Grant { lease, extendable_until, request, attempts_max, worker, partition, superseded, end } =
            grant;
        let grant = Self::new(*lease, *extendable_until, *request, partition.clone(), worker.clone());
        Self { end: *end, superseded: *superseded, attempts_max: *attempts_max, ..grant }
    }
}

impl From<&StoredGrant> for Grant {
    fn from(grant: &StoredGrant) -> Self {
        Self {
            lease: grant.lease,
            extendable_until: grant.extendable_until,
            request: grant.request(),
            attempts_max: grant.attempts_max,
            worker: grant.worker().cloned(),
            partition: grant.partition().cloned(),
            superseded: grant.superseded,
            end: grant.end,
        }
    }
}
