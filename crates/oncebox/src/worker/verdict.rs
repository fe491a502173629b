//! From how a run ended to what the store shall hear.

use std::time::Duration;

use oncebox_core::limits::DURATION_MAX;
use oncebox_core::{DeadReason, Delivery, Span, Verdict};

use super::failure::{Failure, Wish};
use super::options::Options;
use super::route::RouteSettings;
use crate::shared::Shared;

/// What the store shall hear about a failed delivery.
pub(super) fn of_failure(
    shared: &Shared,
    options: &Options,
    route: &RouteSettings,
    delivery: &Delivery,
    failure: &Failure,
) -> Verdict {
    let error = failure.last_error();
    let before = delivery.attempts;
    let backoff = route.backoff.as_ref().unwrap_or(&options.backoff);
    match failure.wish() {
        Wish::Dead => Verdict::Fail { reason: DeadReason::Failed, error },
        Wish::Undecodable => Verdict::Fail { reason: DeadReason::Undecodable, error },
        Wish::Retry => Verdict::Abandon { delay: shared.delay(backoff, before), error },
        Wish::RetryAfter(delay) => {
            let delay = Span::delay(delay.clamp(Duration::from_millis(1), DURATION_MAX));
            Verdict::Abandon { delay: delay.expect("in bounds"), error }
        }
    }
}
