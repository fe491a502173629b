//! Keys: what identifies duplicates of a message.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;

use crate::error::Invalid;
use crate::id::Uid;
use crate::limits::{COMMANDS_ATTEMPTS_DEFAULT, INBOX_ATTEMPTS_DEFAULT, MAILBOX_ATTEMPTS_DEFAULT};
use crate::text::{Id, Source};

/// One of the four namespaces. Keys and messages of different namespaces never mix: a claim stays within its namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum Namespace {
    /// Messages identified by (source, id).
    Inbox,
    /// Commands; the source of a key is the tenant.
    Commands,
    /// Keys without content, for "was this key processed?".
    Ledger,
    /// Store-and-forward; the source of a key is the topic.
    Mailbox,
}

impl Namespace {
    /// All namespaces, in order.
    pub const ALL: [Self; 4] = [Self::Inbox, Self::Commands, Self::Ledger, Self::Mailbox];

    /// The name in stored data, labels and responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Inbox => "inbox",
            Self::Commands => "commands",
            Self::Ledger => "ledger",
            Self::Mailbox => "mailbox",
        }
    }

    /// The maximum number of failed deliveries if neither the sender nor the claimer sets a limit; none is no limit.
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

/// The identity of a message towards its senders: at most one live message holds a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The namespace of the key.
    pub namespace: Namespace,
    /// The system that the message comes from.
    pub source: Source,
    /// The id of the message within its source.
    pub id: Id,
}

impl Key {
    /// A key of any namespace.
    pub fn new(namespace: Namespace, source: Source, id: Id) -> Self {
        Self { namespace, source, id }
    }

    /// A key of the inbox, checked against the inbox's limits.
    pub fn inbox(source: impl Into<Arc<str>>, id: impl Into<Arc<str>>) -> Result<Self, Invalid> {
        Ok(Self::new(Namespace::Inbox, Source::inbox(source)?, Id::inbox(id)?))
    }
}

/// Refers to a message in a call: by uid, or by the key that it holds.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MessageRef {
    /// The message with this uid.
    Uid(Uid),
    /// The message that holds this key now.
    Key(Key),
}

impl From<Uid> for MessageRef {
    fn from(uid: Uid) -> Self {
        Self::Uid(uid)
    }
}

impl From<Key> for MessageRef {
    fn from(key: Key) -> Self {
        Self::Key(key)
    }
}
