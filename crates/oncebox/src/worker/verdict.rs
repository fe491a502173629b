//! Verdicts for failed deliveries.

use std::time::Duration;

use oncebox_core::limits::DURATION_MAX;
use oncebox_core::{DeadReason, Delivery, Span, Verdict};

use super::failure::{Failure, FailureAction};
use super::options::Options;
use super::route::RouteSettings;
use crate::shared::Shared;

/// The verdict for a failed delivery.
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
    match failure.action() {
        FailureAction::Dead => Verdict::Fail { reason: DeadReason::Failed, error },
        FailureAction::Undecodable => Verdict::Fail { reason: DeadReason::Undecodable, error },
        FailureAction::Retry => Verdict::Abandon { delay: shared.delay(backoff, before), error },
        FailureAction::RetryAfter(delay) => {
            let delay = Span::delay(delay.clamp(Duration::from_millis(1), DURATION_MAX));
            Verdict::Abandon { delay: delay.expect("in bounds"), error }
        }
    }
}
