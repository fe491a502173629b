//! The names of metrics.

crate::metric_names! {
    /// Messages enqueued, by `outcome`: `accepted`, `duplicate`, `replaced`, `conflict`, `saturated`.
    counter ENQUEUED = "oncebox_enqueued_total";
    /// Commands scheduled, by `outcome`: `accepted`, `already_accepted`, `conflict`, `refused`.
    counter SCHEDULED = "oncebox_commands_scheduled_total";
    /// Messages and commands that came again with other content.
    counter DIVERGED = "oncebox_diverged_total";
    /// Deliveries that ended, by `topic` and `outcome`: `done`, `retrying`, `dead`, `released`, `superseded`, `lost`.
    counter SETTLED = "oncebox_settled_total";
    /// Seconds a handler ran, by `topic`.
    histogram HANDLER_SECONDS = "oncebox_handler_seconds";
    /// Seconds from acceptance to the start of the first delivery, by `topic`.
    histogram WAITED_SECONDS = "oncebox_waited_seconds";
    /// Calls of a worker or of upkeep that the store failed, by `call`: `work`, `extend`, `begin` (a handler's transaction),
    /// `upkeep`.
    counter CALLS_FAILED = "oncebox_calls_failed_total";
    /// Leases that ended by themselves: a worker crashed, stalled, or lost its store.
    counter LAPSED = "oncebox_leases_lapsed_total";
    /// Messages that expired.
    counter EXPIRED = "oncebox_expired_total";
    /// Messages that became Dead, by `reason`.
    counter DIED = "oncebox_died_total";
    /// Messages that upkeep forgot.
    counter FORGOTTEN = "oncebox_forgotten_total";
}
