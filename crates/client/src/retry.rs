//! Retries: whether and when a failed call is retried.

use std::time::Duration;

use oncebox_wire::mailbox::{SettleItem, SettleOp};

use crate::error::ClientError;
use crate::random;

/// Upper limit of the first backoff; it doubles with each retry.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
/// Maximum backoff, unless the server requests more.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Length of a message id; a receipt is longer.
const MSG_ID_LENGTH: usize = 26;

/// Whether a call may be retried if its outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// Yes: a retry has the same effect and gets the same response.
    Always,
    /// Only if nothing of the request was sent.
    IfUnsent,
}

impl RetryPolicy {
    /// The policy for settlements: always, except with a nack by message id, which may refer to another delivery by
    /// then.
    pub(crate) fn for_settlements<'a>(items: impl IntoIterator<Item = &'a SettleItem>) -> Self {
        let is_unsafe = |item: &SettleItem| item.op == SettleOp::Nack && !is_receipt(&item.delivery);
        if items.into_iter().any(is_unsafe) { Self::IfUnsent } else { Self::Always }
    }

    pub(crate) fn allows(self, error: &ClientError) -> bool {
        error.is_unsent() || self == Self::Always && error.is_retryable()
    }
}

pub(crate) fn is_receipt(delivery: &str) -> bool {
    delivery.len() > MSG_ID_LENGTH
}

/// The backoff before a retry, counted from 0: random, up to a limit that doubles, in addition to the delay that the
/// server requested.
pub(crate) fn backoff(retry: u32, error: &ClientError) -> Duration {
    let span = BACKOFF_FIRST.saturating_mul(1 << retry.min(16)).min(BACKOFF_MAX);
    let share = span.mul_f64(random::fraction());
    // The jitter spreads clients that got the same `Retry-After`.
    error.retry_after().map_or(share, |asked| asked + share)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_wire::mailbox::{SettleItem, SettleOp};

    use super::{BACKOFF_MAX, RetryPolicy, backoff};
    use crate::error::ClientError;

    #[test]
    fn the_backoff_is_bounded_and_respects_retry_after() {
        let own = ClientError::error_response(503, None, None);
        assert!((0..100).all(|retry| backoff(retry, &own) <= BACKOFF_MAX));
        let asked = ClientError::error_response(503, None, Some(Duration::from_secs(9)));
        assert!((Duration::from_secs(9)..=Duration::from_secs(11)).contains(&backoff(3, &asked)));
    }

    #[test]
    fn only_a_nack_by_message_id_is_unsafe_to_retry() {
        let item =
            |op, delivery: &str| SettleItem { op, delivery: delivery.to_owned(), ..SettleItem::default() };
        let (message, receipt) = ("0".repeat(26), "0".repeat(80));
        assert_eq!(
            RetryPolicy::for_settlements(&[item(SettleOp::Ack, &message), item(SettleOp::Nack, &receipt)]),
            RetryPolicy::Always
        );
        assert_eq!(
            RetryPolicy::for_settlements(&[item(SettleOp::Ack, &receipt), item(SettleOp::Nack, &message)]),
            RetryPolicy::IfUnsent
        );
    }

    #[test]
    fn an_unsent_request_may_always_be_retried() {
        let unsent = ClientError::unreachable("x: y", "refused").unsent();
        let broken = ClientError::unreachable("x: y", "reset");
        assert!(RetryPolicy::IfUnsent.allows(&unsent) && RetryPolicy::Always.allows(&unsent));
        assert!(!RetryPolicy::IfUnsent.allows(&broken) && RetryPolicy::Always.allows(&broken));
        assert!(!RetryPolicy::Always.allows(&ClientError::error_response(404, None, None)));
    }
}
