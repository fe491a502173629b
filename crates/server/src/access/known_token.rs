//! A token that was verified.

use oncebox_capability::{Token, VerifiedToken};

/// A token with a good signature and caveats that are understood.
pub(super) struct KnownToken {
    pub(super) token: Token,
    pub(super) verified: VerifiedToken,
    /// Its key is retired: it is good for settlements at most.
    pub(super) is_retired: bool,
}
