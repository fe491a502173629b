//! Why a text is not a token, and why a token cannot be made.

use crate::limits::CAVEATS_COUNT_MAX;

/// A token that cannot be parsed, minted or attenuated. Contains nothing of the token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The text has another encoding.
    #[error("the token is not base64url without padding: pass it exactly as it was issued")]
    Encoding,
    /// The bytes are not a macaroon that this crate accepts; the text says why.
    #[error("the token is not a macaroon in the v2 binary format ({0}): pass it exactly as it was issued")]
    Format(&'static str),
    /// A part of the token is over its limit.
    #[error("{part} is {given} bytes long, the limit is {limit}: use a shorter one")]
    TooLong {
        /// Which part.
        part: &'static str,
        /// Its length.
        given: usize,
        /// The longest that is allowed.
        limit: usize,
    },
    /// There is no space for another caveat.
    #[error("a token has at most {CAVEATS_COUNT_MAX} caveats: attenuate a token with fewer")]
    TooManyCaveats,
    /// The identifier has another form.
    #[error("the identifier of the token has an unknown form: use a token that Oncebox issued")]
    Identifier,
    /// A token cannot be minted without expiry.
    #[error("a token must end: add a caveat `expires = <unix seconds>`")]
    NoExpiry,
}

/// Fails if a part is over its limit.
pub(crate) fn check_length(part: &'static str, given: usize, limit: usize) -> Result<(), TokenError> {
    if given > limit { Err(TokenError::TooLong { part, given, limit }) } else { Ok(()) }
}
