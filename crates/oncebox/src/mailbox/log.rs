//! Log events about single mailbox messages. Every event has the `corr_id` of its message (MBX-P-8); none contains a
//! key or a payload.

use oncebox_core::{Accepted, Delivery, Extended, NewMessage, Settled, Trace};
use tracing::{debug, info, warn};

use crate::telemetry;

fn corr_id(trace: &Trace) -> &str {
    trace.correlation().unwrap_or_default()
}

/// Logs the outcome of sending a message.
pub(super) fn sent(store: &str, message: &NewMessage, accepted: &Accepted) {
    let (topic, corr_id) = (&message.content.topic, corr_id(&message.trace));
    match accepted {
        Accepted::New { .. } => debug!(store, %topic, corr_id, "accepted"),
        Accepted::Duplicate { summary, .. } | Accepted::Replaced(summary) => {
            let first_corr_id = self::corr_id(&summary.trace);
            debug!(store, %topic, corr_id, first_corr_id, "duplicate");
        }
        Accepted::Conflict(summary) => {
            telemetry::diverged();
            let first_corr_id = self::corr_id(&summary.trace);
            warn!(store, %topic, corr_id, first_corr_id, "idempotency key reused with a different payload");
        }
        _ => debug!(store, %topic, corr_id, "not accepted: capacity exceeded"),
    }
}

/// Logs a delivery.
pub(super) fn delivered(store: &str, delivery: &Delivery) {
    let (topic, corr_id) = (&delivery.content.topic, corr_id(&delivery.trace));
    debug!(store, %topic, corr_id, attempt = delivery.deliveries, "delivered");
}

/// Whether settlements are logged. If so, a message that is settled by receipt is read first to get its `corr_id`;
/// otherwise the receipt is enough and nothing is read.
pub(super) fn logs_settlements() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// Logs whether a delivery was extended.
pub(super) fn extended(store: &str, trace: Option<&Trace>, extended: Option<Extended>) {
    let Some(corr_id) = trace.map(corr_id) else { return };
    match extended {
        Some(Extended::Until(_)) => debug!(store, corr_id, "extended"),
        Some(Extended::Locked) => debug!(store, corr_id, "not extended: locked by another transaction"),
        _ => debug!(store, corr_id, "not extended: lease lost"),
    }
}

/// Logs the outcome of a settlement. Logs nothing without a trace, which means that the message was not read or is
/// deleted.
pub(super) fn settled(store: &str, trace: Option<&Trace>, settled: Settled) {
    let Some(corr_id) = trace.map(corr_id) else { return };
    match settled {
        Settled::Done => debug!(store, corr_id, "acknowledged"),
        Settled::Dead { reason } => info!(store, corr_id, %reason, "dead-lettered"),
        Settled::LeaseLost => debug!(store, corr_id, "not settled: lease lost"),
        _ => debug!(store, corr_id, "not acknowledged: will be redelivered"),
    }
}
