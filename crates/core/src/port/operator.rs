//! Operating: orders that need no lease, listings, counts.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

use crate::annotation::LastError;
use crate::error::Invalid;
use crate::id::{Number, Shard};
use crate::key::{Namespace, Ref};
use crate::limits::PAGE_ITEMS_MAX;
use crate::message::{DeadReason, Hold, Snapshot, State};
use crate::payload::Omitted;
use crate::port::{Bound, Receipt};
use crate::text::{Source, Topic};

/// Whether a redriven message starts counting anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptCount {
    /// From zero.
    Reset,
    /// Goes on.
    Keep,
}

/// What an operator orders. A Done message stays as it is, whatever the order, but for an erase.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Seen or Dead becomes Processing, with its number and attempts; claimable if it has content. A leased Processing
    /// one is ready again; one that is not leased stays as it is.
    MarkProcessing,
    /// It becomes Done. An unknown key is recorded as Done; an unknown uid is not.
    MarkProcessed {
        /// How long the key is held, if it is new.
        hold: Hold,
    },
    /// Seen or Processing becomes Dead with reason `failed`.
    MarkDead {
        /// Why; the earlier error stays if none is given.
        error: Option<LastError>,
    },
    /// Dead becomes Processing with a new number, without due, retry time and expiry. Asks no key.
    Redrive {
        /// Whether its attempts count anew.
        attempts: AttemptCount,
        /// Only if it was redriven less often than this; it stays as it is otherwise.
        times_max: Option<u32>,
        /// Only if its lane has fewer unfinished messages than this; `Saturated` otherwise.
        lane_max: Option<NonZeroU32>,
    },
    /// Seen or Processing becomes Dead with reason `cancelled`.
    Cancel,
    /// Nothing remains of it: not the payload, not the key, not the record that it was there.
    Erase,
}

/// An order about one message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Which.
    pub target: Ref,
    /// What to do.
    pub action: Action,
}

/// What an order did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operated {
    /// It was carried out; the receipt tells how the message stands now (erased: how it stood).
    Changed(Receipt),
    /// It does not apply to the state that the message is in; nothing changed.
    Unchanged(Receipt),
    /// There is no such message.
    Unknown,
    /// The store is full, or the lane that a message would be redriven to; nothing was changed.
    Saturated {
        /// When to try again.
        retry_after: Duration,
        /// The bound that is reached.
        bound: Bound,
    },
}

impl Action {
    /// Dead becomes Processing, with its attempts counted from zero, however often it was redriven and however full its lane is.
    pub const REDRIVE: Self =
        Self::Redrive { attempts: AttemptCount::Reset, times_max: None, lane_max: None };
}

/// How many messages or names a page has at most: 1 to [`PAGE_ITEMS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(NonZeroU32);

impl PageSize {
    /// The largest page.
    pub const MAX: Self = Self(NonZeroU32::new(PAGE_ITEMS_MAX).unwrap());

    /// Takes a count.
    pub fn new(messages: u32) -> Result<Self, Invalid> {
        let messages =
            NonZeroU32::new(messages).ok_or(Invalid::new("page size", "must be greater than zero"))?;
        if messages.get() > PAGE_ITEMS_MAX {
            return Err(Invalid::too_many("page", PAGE_ITEMS_MAX as usize, messages.get() as usize));
        }
        Ok(Self(messages))
    }

    /// The count.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// Where a listing goes on. Opaque to its user.
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
        // The parser of numbers takes a sign, too, and any count of leading zeros.
        let digits = text.len() <= 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
        let number = u64::from_str_radix(text, 16).ok().filter(|_| digits);
        number.map(|number| Self(Number(number))).ok_or(Invalid::new("cursor", "is not one of ours"))
    }
}

/// Which end a listing begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Direction {
    /// The lowest number first.
    #[default]
    OldestFirst,
    /// The highest number first.
    NewestFirst,
}

/// A listing: what is in it, and which page of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Of this namespace.
    pub namespace: Namespace,
    /// In this state.
    pub state: Option<State>,
    /// Dead for this reason.
    pub dead: Option<DeadReason>,
    /// With content of this topic.
    pub topic: Option<Topic>,
    /// From this source.
    pub source: Option<Source>,
    /// In this order.
    pub direction: Direction,
    /// After this one.
    pub after: Option<Cursor>,
    /// So many at most.
    pub size: PageSize,
}

impl Query {
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

    /// Whether a message belongs in the listing.
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
pub struct Page {
    /// The messages, without their payloads.
    pub messages: Vec<Snapshot<Omitted>>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Of this namespace.
    pub namespace: Namespace,
    /// With content of this topic.
    pub topic: Option<Topic>,
    /// In this slice of the topic; counts only together with a topic.
    pub shard: Option<Shard>,
}

impl Scope {
    /// Everything in a namespace.
    pub const fn all(namespace: Namespace) -> Self {
        Self { namespace, topic: None, shard: None }
    }

    /// With content of one topic.
    pub const fn topic(namespace: Namespace, topic: Topic) -> Self {
        Self { namespace, topic: Some(topic), shard: None }
    }
}

/// How many messages stand where. Every message is counted once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Seen, leased or not.
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
    fn a_cursor_survives_its_text_and_nonsense_is_refused() {
        let cursor = Cursor(Number(u64::MAX));
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for nonsense in ["x", "", "+1", "-1", "00000000000000001", "1ffffffffffffffff"] {
            let error = nonsense.parse::<Cursor>().unwrap_err().to_string();
            assert_eq!(error, "cursor is not one of ours", "{nonsense}");
        }
    }
}
