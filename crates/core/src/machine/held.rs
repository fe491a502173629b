//! The newest lease of a message as it lies in memory: small, because finished messages keep it for a while.

use std::num::NonZeroU32;

use crate::id::RequestId;
use crate::message::{Grant, GrantEnd, Lease};
use crate::text::Partition;
use crate::time::Timestamp;
use crate::worker::WorkerName;

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
    worker: Option<WorkerName>,
}

impl Held {
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

    /// The claim call that got it.
    pub(super) fn request(&self) -> Option<RequestId> {
        self.rare.as_ref()?.request
    }

    /// What its claimer called itself.
    pub(super) fn worker(&self) -> Option<&WorkerName> {
        self.rare.as_ref()?.worker.as_ref()
    }

    /// The partition that it keeps busy.
    pub(super) fn partition(&self) -> Option<&Partition> {
        self.rare.as_ref()?.partition.as_ref()
    }
}

impl From<&Grant> for Held {
    fn from(grant: &Grant) -> Self {
        let Grant { lease, extendable_until, request, attempts_max, worker, partition, superseded, end } =
            grant;
        let held = Self::new(*lease, *extendable_until, *request, partition.clone(), worker.clone());
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
            worker: held.worker().cloned(),
            partition: held.partition().cloned(),
            superseded: held.superseded,
            end: held.end,
        }
    }
}
