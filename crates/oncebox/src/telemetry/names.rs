//! Metric names.

crate::metric_names! {
    /// Messages enqueued, by `outcome`: `accepted`, `duplicate`, `replaced`, `conflict`, `saturated`.
    counter ENQUEUED = "oncebox_enqueued_total";
    /// Commands scheduled, by `outcome`: `accepted`, `already_accepted`, `conflict`, `refused`.
    counter SCHEDULED = "oncebox_commands_scheduled_total";
    /// Duplicate messages and commands whose content differs from the first.
    counter DIVERGED = "oncebox_diverged_total";
    /// Deliveries that ended, by `topic` and `outcome`: `done`, `retrying`, `dead`, `released`, `superseded`, `lost`.
    counter SETTLED = "oncebox_settled_total";
    /// Handler run time in seconds, by `topic`.
    histogram HANDLER_SECONDS = "oncebox_handler_seconds";
    /// Seconds from acceptance to the start of the first delivery, by `topic`.
    histogram WAITED_SECONDS = "oncebox_waited_seconds";
    /// Store calls of workers and maintenance that failed, by `call`: `work`, `extend`, `begin` (a handler's
    /// transaction), `maintain`.
    counter CALLS_FAILED = "oncebox_calls_failed_total";
    /// Leases that lapsed: a worker crashed, stalled or lost its connection to the store.
    counter LAPSED = "oncebox_leases_lapsed_total";
    /// Messages that expired.
    counter EXPIRED = "oncebox_expired_total";
    /// Messages that became Dead, by `reason`.
    counter DIED = "oncebox_died_total";
    /// Messages that maintenance deleted.
    counter FORGOTTEN = "oncebox_forgotten_total";
}
