//! Keys: what makes two messages the same one.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::error::Invalid;
use crate::id::Uid;
use crate::limits::{COMMANDS_ATTEMPTS_DEFAULT, INBOX_ATTEMPTS_DEFAULT, MAILBOX_ATTEMPTS_DEFAULT};
use crate::text::{Id, Source};

/// The four faces keep their keys and their work apart: a claim never crosses its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Namespace {
    /// Messages by (source, id).
    Inbox,
    /// Commands; the source of a key is the tenant.
    Commands,
    /// "Was this key processed?"; keys without content.
    Ledger,
    /// Store-and-forward; the source of a key is the topic.
    Mailbox,
}

impl Namespace {
    /// All namespaces, in order.
    pub const ALL: [Self; 4] = [Self::Inbox, Self::Commands, Self::Ledger, Self::Mailbox];

    /// The name in stored data, labels and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Commands => "commands",
            Self::Ledger => "ledger",
            Self::Mailbox => "mailbox",
        }
    }

    /// How many deliveries of a message may end badly if neither its sender nor its claimer named a limit; none is no limit.
    pub fn attempts_default(self) -> Option<NonZeroU32> {
        match self {
            Self::Inbox => NonZeroU32::new(INBOX_ATTEMPTS_DEFAULT),
            Self::Commands => NonZeroU32::new(COMMANDS_ATTEMPTS_DEFAULT),
            Self::Mailbox => NonZeroU32::new(MAILBOX_ATTEMPTS_DEFAULT),
            Self::Ledger => None,
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a message is known by: at most one live message holds a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The face that the key belongs to.
    pub namespace: Namespace,
    /// Where the message comes from.
    pub source: Source,
    /// What its source calls it.
    pub id: Id,
}

impl Key {
    /// A key of any namespace.
    pub fn new(namespace: Namespace, source: Source, id: Id) -> Self {
        Self { namespace, source, id }
    }

    /// A key of the inbox, with the inbox's limits.
    pub fn inbox(source: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        Ok(Self::new(Namespace::Inbox, Source::inbox(source)?, Id::inbox(id)?))
    }
}

/// Names a message in a call: by uid, or by key through the key's live entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ref {
    /// The message with this uid.
    Uid(Uid),
    /// The message that holds this key now.
    Key(Key),
}

impl From<Uid> for Ref {
    fn from(uid: Uid) -> Self {
        Self::Uid(uid)
    }
}

impl From<Key> for Ref {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}
