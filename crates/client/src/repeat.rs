//! When a call that failed is made again.

use std::time::Duration;

use oncebox_wire::mailbox::{Op, SettleItem};

use crate::error::Error;
use crate::random;

/// The first pause is this long at most, each further one twice that.
const PAUSE_FIRST: Duration = Duration::from_millis(50);
/// No pause that the server did not ask for is longer.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// The name of a message has so many characters; a receipt has more.
const MSG_ID_LENGTH: usize = 26;

/// Whether a call may be made again after it failed with an unknown outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A repeat has the same effect and gets the same answer.
    Safe,
    /// Only if nothing of it was sent.
    Unsent,
}

impl Repeat {
    /// Of settlements: all but a negative one that names a message, for that may be another delivery by then.
    pub(crate) fn of<'a>(items: impl IntoIterator<Item = &'a SettleItem>) -> Self {
        let doubtful = |item: &SettleItem| item.op == Op::Nack && !is_receipt(&item.delivery);
        if items.into_iter().any(doubtful) { Self::Unsent } else { Self::Safe }
    }

    pub(crate) fn allows(self, error: &Error) -> bool {
        error.is_unsent() || self == Self::Safe && error.is_retryable()
    }
}

pub(crate) fn is_receipt(delivery: &str) -> bool {
    delivery.len() > MSG_ID_LENGTH
}

/// How long to wait before the repeat with this number, from 0: a random share of a span that doubles, and never less than
/// the server asks for.
pub(crate) fn pause(repeat: u32, error: &Error) -> Duration {
    let span = PAUSE_FIRST.saturating_mul(1 << repeat.min(16)).min(PAUSE_MAX);
    let share = span.mul_f64(random::fraction());
    // All who were told the same moment do not come at the same moment.
    error.retry_after().map_or(share, |asked| asked + share)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use oncebox_wire::mailbox::{Op, SettleItem};

    use super::{PAUSE_MAX, Repeat, pause};
    use crate::error::Error;

    #[test]
    fn pauses_are_bounded_and_respect_the_server() {
        let own = Error::refused(503, None, None);
        assert!((0..100).all(|repeat| pause(repeat, &own) <= PAUSE_MAX));
        let asked = Error::refused(503, None, Some(Duration::from_secs(9)));
        assert!((Duration::from_secs(9)..=Duration::from_secs(11)).contains(&pause(3, &asked)));
    }

    #[test]
    fn only_a_nack_by_message_is_doubtful() {
        let item =
            |op, delivery: &str| SettleItem { op, delivery: delivery.to_owned(), ..SettleItem::default() };
        let (message, receipt) = ("0".repeat(26), "0".repeat(80));
        assert_eq!(Repeat::of(&[item(Op::Ack, &message), item(Op::Nack, &receipt)]), Repeat::Safe);
        assert_eq!(Repeat::of(&[item(Op::Ack, &receipt), item(Op::Nack, &message)]), Repeat::Unsent);
    }

    #[test]
    fn what_was_not_sent_may_always_be_sent_again() {
        let unsent = Error::unreachable("x: y", "refused").unsent();
        let broken = Error::unreachable("x: y", "reset");
        assert!(Repeat::Unsent.allows(&unsent) && Repeat::Safe.allows(&unsent));
        assert!(!Repeat::Unsent.allows(&broken) && Repeat::Safe.allows(&broken));
        assert!(!Repeat::Safe.allows(&Error::refused(404, None, None)));
    }
}
