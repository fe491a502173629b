//! Deliveries and settlements in the format of `oncebox_audit::workers::protocol`.

use std::time::Duration;

use oncebox_core::{DeadReason, Delivery, Owner, Settlement, Span, Verdict};

use super::held::Held;
use crate::{Failure, trace};

pub(super) fn delivery(delivery: &Delivery) -> String {
    format!(
        "{},{:032x},{},{},{},{},{}",
        delivery.key.id.as_str(),
        delivery.uid.as_u128(),
        delivery.lease.fence.get(),
        delivery.lease.until.as_millis(),
        delivery.deliveries,
        delivery.attempts,
        trace::hash(delivery.content.payload.as_bytes())
    )
}

pub(super) fn settlement(
    held: &Held,
    owner: Owner,
    verdict: &str,
    delay: Duration,
) -> Result<Settlement, Failure> {
    let verdict = match verdict {
        "ack" => Verdict::Ack,
        "abandon" => Verdict::Abandon { delay: Span::delay(delay)?, error: None },
        "fail" => Verdict::Fail { reason: DeadReason::Failed, error: None },
        _ => Verdict::Release,
    };
    Ok(Settlement { uid: held.uid, owner, fence: held.fence, verdict })
}
