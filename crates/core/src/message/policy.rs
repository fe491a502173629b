//! The policy that a message is accepted under.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::key::Namespace;
use crate::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a key is held, that is, how long duplicates of its message are recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// The dedup window: held for at least this long from acceptance.
    pub window: Duration,
    /// What holds the key beyond the window.
    pub keep: Keep,
}

/// What holds a key beyond the window that starts at its acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing, even while the message is unfinished.
    Window,
    /// The message, while it is unfinished. Once it is Done or Dead, only the window counts; a key that was released
    /// this way does not come back with a redrive.
    UntilFinished,
    /// The message, while it is unfinished or Dead, and for this long after it was Done.
    After(Duration),
}

impl Hold {
    /// Until when a key is held, as far as is known now.
    ///
    /// Exact for a Done message and for [`Keep::Window`]; otherwise the earliest moment at which the hold can end.
    pub fn until(self, accepted_at: Timestamp, done_at: Option<Timestamp>) -> Timestamp {
        let window = accepted_at.after(self.window);
        match self.keep {
            Keep::Window | Keep::UntilFinished => window,
            Keep::After(keep) => window.max(done_at.unwrap_or(accepted_at).after(keep)),
        }
    }
}

/// What happens when a known key arrives with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Divergence {
    /// The newer content replaces the older, unless the message is Done.
    Replace,
    /// The first content is kept.
    KeepFirst,
    /// The first content is kept, and the sender gets a conflict.
    Conflict,
}

/// The rules that apply to one message, stored with it at acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The sender's limit of failed deliveries, if it set one; see [`Policy::attempts_limit`].
    pub attempts_max: Option<NonZeroU32>,
    /// How long its key is held.
    pub hold: Hold,
    /// What a later message with this policy does to an earlier one with the same key.
    pub divergence: Divergence,
    /// Whether a Done message keeps its content and last error until it is forgotten.
    pub keep_finished: bool,
}

impl Policy {
    /// Held for 30 days after Done, the newest content wins.
    pub const INBOX: Self = Self {
        attempts_max: None,
        hold: Hold { window: Duration::ZERO, keep: Keep::After(DAY.saturating_mul(30)) },
        divergence: Divergence::Replace,
        keep_finished: false,
    };
    /// Held for 30 days after Done, the first content wins.
    pub const COMMANDS: Self = Self { divergence: Divergence::KeepFirst, ..Self::INBOX };
    /// Held for 7 days after Done.
    pub const LEDGER: Self = Self {
        attempts_max: None,
        hold: Hold { window: Duration::ZERO, keep: Keep::After(DAY.saturating_mul(7)) },
        divergence: Divergence::KeepFirst,
        keep_finished: false,
    };
    /// Held for 300 s from acceptance; other content is refused.
    pub const MAILBOX: Self = Self {
        attempts_max: None,
        hold: Hold { window: Duration::from_secs(300), keep: Keep::Window },
        divergence: Divergence::Conflict,
        keep_finished: false,
    };

    /// The number of failed deliveries after which a message is Dead: the sender's limit, else the claimer's, else the
    /// default of the namespace. None means never.
    pub fn attempts_limit(&self, namespace: Namespace, claimer: Option<NonZeroU32>) -> Option<NonZeroU32> {
        self.attempts_max.or(claimer).or(namespace.attempts_default())
    }

    /// The policy of a key that was only observed, begun or marked, until it gets content.
    pub const fn bare(hold: Hold) -> Self {
        Self { attempts_max: None, hold, divergence: Divergence::KeepFirst, keep_finished: false }
    }

    /// The default policy of a namespace.
    pub const fn of(namespace: Namespace) -> Self {
        match namespace {
            Namespace::Inbox => Self::INBOX,
            Namespace::Commands => Self::COMMANDS,
            Namespace::Ledger => Self::LEDGER,
            Namespace::Mailbox => Self::MAILBOX,
        }
    }
}
