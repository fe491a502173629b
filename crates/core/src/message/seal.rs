//! What a sender froze about a message, so that a receiver can tell whether it is still what was sent.

use crate::hash::Fingerprint;
use crate::time::Timestamp;

/// A hash over a message as it was sent, and the moment that went into the hash.
///
/// It is computed once, before the message is stored. Whoever delivers the message computes the hash again from what the
/// store returned and compares: a difference means that something was changed in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// When the message was sent, by the sender's clock.
    pub at: Timestamp,
    /// The hash over everything that must not change between sending and delivery, `at` included.
    pub chain: Fingerprint,
}
