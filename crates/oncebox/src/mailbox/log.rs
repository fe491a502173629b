//! What is logged about single messages of the mailbox: every line has the `corr_id` of its message (MBX-P-8), none a key or a
//! payload.

use oncebox_core::{Accepted, Delivery, Extended, NewMessage, Settled, Trace};
use tracing::{debug, info, warn};

use crate::telemetry;

fn corr_id(trace: &Trace) -> &str {
    trace.correlation().unwrap_or_default()
}

/// A message was sent; this became of it.
pub(super) fn sent(store: &str, message: &NewMessage, accepted: &Accepted) {
    let (topic, corr_id) = (&message.content.topic, corr_id(&message.trace));
    match accepted {
        Accepted::New { .. } => debug!(store, %topic, corr_id, "accepted"),
        Accepted::Duplicate { receipt, .. } | Accepted::Replaced(receipt) => {
            let first_corr_id = self::corr_id(&receipt.trace);
            debug!(store, %topic, corr_id, first_corr_id, "a duplicate");
        }
        Accepted::Conflict(receipt) => {
            telemetry::diverged();
            let first_corr_id = self::corr_id(&receipt.trace);
            warn!(store, %topic, corr_id, first_corr_id, "the idempotency key came again with another payload");
        }
        _ => debug!(store, %topic, corr_id, "not accepted: there is no room for it"),
    }
}

/// A message was given out.
pub(super) fn delivered(store: &str, delivery: &Delivery) {
    let (topic, corr_id) = (&delivery.content.topic, corr_id(&delivery.trace));
    debug!(store, %topic, corr_id, attempt = delivery.deliveries, "delivered");
}

/// Whether every settlement has its line: then a message that is settled by receipt is read first, for its `corr_id`. Without such
/// lines a receipt is enough, and nothing is read.
pub(super) fn tells_settlements() -> bool {
    tracing::enabled!(tracing::Level::DEBUG)
}

/// A delivery was given more time, or not.
pub(super) fn extended(store: &str, trace: Option<&Trace>, extended: Option<Extended>) {
    let Some(corr_id) = trace.map(corr_id) else { return };
    match extended {
        Some(Extended::Until(_)) => debug!(store, corr_id, "extended"),
        _ => debug!(store, corr_id, "not extended: the delivery is not held any more"),
    }
}

/// A delivery was settled. Without a trace, because the message was not read or is gone, no line is written.
pub(super) fn settled(store: &str, trace: Option<&Trace>, settled: Settled) {
    let Some(corr_id) = trace.map(corr_id) else { return };
    match settled {
        Settled::Done => debug!(store, corr_id, "acknowledged"),
        Settled::Dead { reason } => info!(store, corr_id, %reason, "a dead letter"),
        Settled::LeaseLost => debug!(store, corr_id, "not settled: the delivery is not held any more"),
        _ => debug!(store, corr_id, "not acknowledged: the message comes again"),
    }
}
