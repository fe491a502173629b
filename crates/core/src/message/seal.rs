//! The seal with which a receiver verifies that a message is unchanged since it was sent.

use crate::hash::Fingerprint;
use crate::time::Timestamp;

/// A hash over a message as it was sent, and the time that went into the hash.
///
/// It is computed once, before the message is stored. On delivery the hash is computed again from what the store
/// returned: a difference means that something changed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// When the message was sent, by the sender's clock.
    pub at: Timestamp,
    /// The hash over everything that must not change between sending and delivery, `at` included.
    pub chain: Fingerprint,
}
