//! What a worker did.

/// What a worker did until it stopped: counts of messages and deliveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct WorkerSummary {
    /// Messages that were handled and are Done.
    pub handled: u64,
    /// Deliveries that failed and will be retried.
    pub retrying: u64,
    /// Messages that became Dead.
    pub dead: u64,
    /// Deliveries that were released before a handler started, or cancelled when the worker stopped.
    pub released: u64,
    /// Deliveries whose content was replaced while they were handled; the newer content is delivered again.
    pub superseded: u64,
    /// Deliveries whose lease was lost; their results did not count.
    pub lost: u64,
    /// Deliveries that could not be settled in time; they are delivered again when their leases end.
    pub unsettled: u64,
}
