//! Operator calls: orders that need no lease, listings, counts.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use crate::annotation::LastError;
use crate::bound::Bound;
use crate::error::Invalid;
use crate::id::{Number, Shard};
use crate::key::{MessageRef, Namespace};
use crate::limits::PAGE_ITEMS_MAX;
use crate::message::{DeadReason, Hold, MessageState, MessageSummary, Snapshot};
use crate::payload::Omitted;
use crate::text::{Source, Topic};

/// Whether redriving a message resets its attempt count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptCount {
    /// Counts from zero.
    Reset,
    /// Continues counting.
    Keep,
}

/// An operator's order. No order changes a Done message, except `Erase`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Seen or Dead becomes Processing, keeping its number and attempts; it is claimable if it has content. A leased
    /// Processing message becomes ready again; one that is not leased is unchanged.
    MarkProcessing,
    /// The message becomes Done. An unknown key is recorded as Done; an unknown uid is not.
    MarkProcessed {
        /// How long the key is held if it is new.
        hold: Hold,
    },
    /// Seen or Processing becomes Dead with reason `failed`.
    MarkDead {
        /// The error to record; none keeps the earlier one.
        error: Option<LastError>,
    },
    /// Dead becomes Processing with a new number, without due time, retry time and expiry. Does not depend on the key.
    Redrive {
        /// Whether to reset its attempts.
        attempts: AttemptCount,
        /// The order applies only to a message that was redriven fewer times than this; otherwise it is `Unchanged`.
        times_max: Option<u32>,
        /// The order applies only while the lane has fewer unfinished messages than this; otherwise it is `Saturated`.
        lane_max: Option<NonZeroU32>,
    },
    /// Seen or Processing becomes Dead with reason `cancelled`.
    Cancel,
    /// Removes the message without a trace: payload, key and the record that it existed.
    Erase,
}

/// An order about one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// The message.
    pub target: MessageRef,
    /// What to do with it.
    pub action: Action,
}

/// The outcome of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operated {
    /// The order was executed; the summary shows the message after it (after an erase: before it).
    Changed(MessageSummary),
    /// The order does not apply to the current state of the message; nothing changed.
    Unchanged(MessageSummary),
    /// There is no such message.
    Unknown,
    /// The store is full, or the lane of the redriven message is; nothing changed.
    Saturated {
        /// When to retry.
        retry_after: Duration,
        /// The bound that is reached.
        bound: Bound,
    },
}

impl Action {
    /// Redrives without limits on redrives and lane size, counting attempts from zero.
    pub const REDRIVE: Self =
        Self::Redrive { attempts: AttemptCount::Reset, times_max: None, lane_max: None };
}

/// The maximum number of messages or topics on a page: 1 to [`PAGE_ITEMS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// The largest page.
    pub const MAX: Self = Self(NonZeroU32::new(PAGE_ITEMS_MAX).unwrap());

    /// Accepts 1 to [`PAGE_ITEMS_MAX`].
    pub fn new(messages: u32) -> Result<Self, Invalid> {
        let messages =
            NonZeroU32::new(messages).ok_or(Invalid::new("page size", "must be greater than zero"))?;
        if messages.get() > PAGE_ITEMS_MAX {
            return Err(Invalid::too_many("page", PAGE_ITEMS_MAX as usize, messages.get() as usize));
        }
        Ok(Self(messages))
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// Where the next page of a listing starts. Opaque to callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(pub Number);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0.0)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        // `from_str_radix` also accepts a sign and any number of leading zeros.
        let digits = text.len() <= 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        let invalid = Invalid::new("cursor", "is invalid: use the `next` of the previous page");
        number.map(|number| Self(Number(number))).ok_or(invalid)
    }
}

/// The order of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The lowest number first.
    #[default]
    OldestFirst,
    /// The highest number first.
    NewestFirst,
}

/// A listing: its filters, its order, and the requested page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageQuery {
    /// The namespace.
    pub namespace: Namespace,
    /// Only messages in this state.
    pub state: Option<MessageState>,
    /// Only messages that are Dead for this reason.
    pub dead: Option<DeadReason>,
    /// Only messages with content of this topic.
    pub topic: Option<Topic>,
    /// Only messages from this source.
    pub source: Option<Source>,
    /// The order.
    pub direction: Direction,
    /// Continues after this cursor.
    pub after: Option<Cursor>,
    /// The maximum number of messages on the page.
    pub size: PageSize,
}

impl MessageQuery {
    /// The first page of everything in a namespace, oldest first.
    pub fn all(namespace: Namespace) -> Self {
        Self {
            namespace,
            state: None,
            dead: None,
            topic: None,
            source: None,
            direction: Direction::OldestFirst,
            after: None,
            size: PageSize::MAX,
        }
    }

    /// Whether a message matches the filters.
    pub fn matches<P>(&self, message: &Snapshot<P>) -> bool {
        let topic = message.content.as_ref().map(|content| &content.topic);
        message.key.namespace == self.namespace
            && self.state.is_none_or(|state| message.state == state)
            && self.dead.is_none_or(|dead| message.dead == Some(dead))
            && self.topic.as_ref().is_none_or(|wanted| topic == Some(wanted))
            && self.source.as_ref().is_none_or(|source| message.key.source == *source)
    }
}

/// One page of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessagePage {
    /// The messages, without their payloads.
    pub messages: Vec<Snapshot<Omitted>>,
    /// The cursor of the next page; none at the end.
    pub next: Option<Cursor>,
}

/// Which messages to count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// The namespace.
    pub namespace: Namespace,
    /// Only messages with content of this topic.
    pub topic: Option<Topic>,
    /// Only messages in this shard of the topic; ignored without a topic.
    pub shard: Option<Shard>,
}

impl Scope {
    /// All messages of a namespace.
    pub const fn all(namespace: Namespace) -> Self {
        Self { namespace, topic: None, shard: None }
    }

    /// The messages of one topic.
    pub const fn topic(namespace: Namespace, topic: Topic) -> Self {
        Self { namespace, topic: Some(topic), shard: None }
    }
}

/// The number of messages by state. Every message is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Seen, whether leased or not.
    pub seen: u64,
    /// Processing, claimable now.
    pub ready: u64,
    /// Processing, neither claimable nor leased: not due, waiting for its retry time or partition, or without content.
    pub waiting: u64,
    /// Processing under a current lease.
    pub leased: u64,
    /// Done and not yet forgotten.
    pub done: u64,
    /// Dead.
    pub dead: u64,
    /// The numbers are estimates.
    pub estimated: bool,
}

#[cfg(test)]
mod tests {
    use super::{Cursor, PageSize};
    use crate::id::Number;

    #[test]
    fn a_page_has_at_least_one_message_and_a_limit() {
        assert!(PageSize::new(0).is_err());
        assert!(PageSize::new(1_001).is_err());
        assert_eq!(PageSize::new(1_000).unwrap(), PageSize::MAX);
    }

    #[test]
    fn a_cursor_round_trips_as_text_and_nonsense_is_refused() {
        let cursor = Cursor(Number(u64::MAX));
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for nonsense in ["x", "", "+1", "-1", "00000000000000001", "1ffffffffffffffff"] {
            let error = nonsense.parse::<Cursor>().unwrap_err().to_string();
            assert_eq!(error, "cursor is invalid: use the `next` of the previous page", "{nonsense}");
        }
    }
}
