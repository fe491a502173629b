//! What is known about a request before its body is read, what its route demands, and why it is refused.

use std::net::IpAddr;

use oncebox_capability::{ApiNamespace, ApiOperation, AuthReason, Refusal};

use super::rate_limits::RateExceeded;
use super::revocations::TooOld;

/// What a route demands of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) operation: ApiOperation,
    /// The namespace, unless the request names it.
    pub(crate) namespace: Option<ApiNamespace>,
    /// Whether the handler checks each message. If not, the request is about no topic.
    pub(crate) is_about_messages: bool,
}

/// A request, as far as it is known before its body is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestHead<'a> {
    pub(crate) token: Option<&'a str>,
    /// The address of the client; none on a unix socket.
    pub(crate) client: Option<IpAddr>,
    /// The smallest payload that the request can have.
    pub(crate) payload_bytes_min: u64,
    /// The time, in Unix seconds.
    pub(crate) now: u64,
}

/// Why a request is not allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AccessRefusal {
    /// It has no token.
    NoToken,
    /// Its token is not valid, or does not allow it.
    Token(Refusal),
    /// It is not known whether the token is revoked.
    RevocationsTooOld(TooOld),
    /// The token has a rate, which is exceeded.
    Rate(RateExceeded),
}

impl From<Refusal> for AccessRefusal {
    fn from(refusal: Refusal) -> Self {
        Self::Token(refusal)
    }
}

impl From<AuthReason> for AccessRefusal {
    fn from(reason: AuthReason) -> Self {
        Self::Token(reason.into())
    }
}
