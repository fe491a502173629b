//! The rules that a message is accepted under.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::key::Namespace;
use crate::time::Timestamp;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a key is held: how long its duplicates are known as such.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hold {
    /// At least this long from acceptance.
    pub window: Duration,
    /// What holds it beyond the window.
    pub keep: Keep,
}

/// What holds a key beyond the window from its acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Nothing, even while the message is unfinished.
    Window,
    /// The message, while it is unfinished. Once it is Done or Dead, the window alone decides; a key that is given up so does not come
    /// back with a redrive.
    UntilFinished,
    /// The message, while it is unfinished or Dead, and this long after it was Done.
    After(Duration),
}

impl Hold {
    /// When a key stops being held, as far as it is certain now.
    ///
    /// Exact for a Done message and for [`Keep::Window`]; otherwise a moment until which it is held at least.
    pub fn until(self, accepted_at: Timestamp, done_at: Option<Timestamp>) -> Timestamp {
        let window = accepted_at.after(self.window);
        match self.keep {
            Keep::Window | Keep::UntilFinished => window,
            Keep::After(keep) => window.max(done_at.unwrap_or(accepted_at).after(keep)),
        }
    }
}

/// What happens when a key comes again with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Divergence {
    /// The newer content is written unless the message is Done.
    Replace,
    /// The first content stays.
    KeepFirst,
    /// The first content stays and the sender is told.
    Conflict,
}

/// The rules of one message, stored with it at acceptance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The sender's limit of deliveries that end badly, if it named one; see [`Policy::attempts_limit`].
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
    /// Held for 300 s from acceptance, other content is refused.
    pub const MAILBOX: Self = Self {
        attempts_max: None,
        hold: Hold { window: Duration::from_secs(300), keep: Keep::Window },
        divergence: Divergence::Conflict,
        keep_finished: false,
    };

    /// After how many deliveries that ended badly a message is Dead: the sender's limit, else the one that its claimer
    /// brought, else the default of its namespace. None: never.
    pub fn attempts_limit(&self, namespace: Namespace, claimer: Option<NonZeroU32>) -> Option<NonZeroU32> {
        self.attempts_max.or(claimer).or(namespace.attempts_default())
    }

    /// The policy of a key that was only sighted, begun or marked, until content comes.
    pub const fn bare(hold: Hold) -> Self {
        Self { attempts_max: None, hold, divergence: Divergence::KeepFirst, keep_finished: false }
    }

    /// The usual policy of a namespace.
    pub const fn of(namespace: Namespace) -> Self {
        match namespace {
            Namespace::Inbox => Self::INBOX,
            Namespace::Commands => Self::COMMANDS,
            Namespace::Ledger => Self::LEDGER,
            Namespace::Mailbox => Self::MAILBOX,
        }
    }
}
