//! Leases of a message, and how they ended.

use std::num::NonZeroU32;

use crate::id::{Fence, Owner, RequestId};
use crate::message::{Settled, VerdictKind};
use crate::text::Partition;
use crate::time::Timestamp;
use crate::worker::WorkerName;

/// The right to settle one message, until a moment of store time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The worker that holds it.
    pub owner: Owner,
    /// Distinguishes the leases of the message.
    pub fence: Fence,
    /// It is current before this moment, not at it.
    pub until: Timestamp,
}

/// How a grant ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GrantEnd {
    /// By a settlement: its kind and its outcome.
    Settled(VerdictKind, Settled),
    /// By lapsing, or by an operator's order.
    Lost,
}

/// The newest lease of a message, and how it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// The lease.
    pub lease: Lease,
    /// Extensions cannot go beyond this moment.
    pub extendable_until: Timestamp,
    /// The claim call that it was granted to; see [`crate::Claim::request_identity`].
    pub request: Option<RequestId>,
    /// The claimer's limit of attempts, while the lease is current.
    pub attempts_max: Option<NonZeroU32>,
    /// The name of the claiming worker; kept after the lease has ended.
    pub worker: Option<WorkerName>,
    /// The partition that it occupies while it is current: the partition of the message when the lease was granted.
    pub partition: Option<Partition>,
    /// The content was replaced since the grant; settling it returns [`Settled::Superseded`].
    pub superseded: bool,
    /// How it ended, if it has.
    pub end: Option<GrantEnd>,
}
