//! When time changes a message, and until when it must be kept: what a store indexes.

use oncebox_core::limits::REPEAT_WINDOW;
use oncebox_core::{MessageState, PayloadHandle, Snapshot, Timestamp};

/// Whether a message that was written at `now` waits in its lane for a claim, leased or not: no timer makes it
/// claimable, only the end of its lease and the order of its partition.
pub fn is_ready<P: PayloadHandle>(message: &Snapshot<P>, now: Timestamp) -> bool {
    message.state == MessageState::Processing
        && message.content.as_ref().is_some_and(|content| content.due.is_none_or(|due| due <= now))
        && message.retry_at.is_none_or(|at| at <= now)
}

/// When the next timer of a message is due that was written at `now`: the end of its lease, the moment at which it
/// becomes claimable, or its expiry.
pub fn next_timer<P: PayloadHandle>(message: &Snapshot<P>, now: Timestamp) -> Option<Timestamp> {
    if let Some(lease) = message.lease() {
        return Some(lease.until);
    }
    let content = message.content.as_ref().filter(|_| message.state == MessageState::Processing)?;
    let claimable = content.due.into_iter().chain(message.retry_at).max().filter(|at| *at > now);
    claimable.into_iter().chain(content.expires).min()
}

/// Until when a message must be kept, whatever the retention, if it is not Processing and not leased: its dedup window
/// was promised to the sender, and repeats of its last settlement need an answer.
pub fn required_until<P: PayloadHandle>(message: &Snapshot<P>) -> Option<Timestamp> {
    if message.state == MessageState::Processing || message.lease().is_some() {
        return None;
    }
    let dedup_until = if message.keyed { message.dedup_until() } else { Timestamp::EPOCH };
    let repeats_until = message.finished_at.map_or(Timestamp::EPOCH, |at| at.after(REPEAT_WINDOW));
    Some(if message.state == MessageState::Seen { dedup_until } else { dedup_until.max(repeats_until) })
}
