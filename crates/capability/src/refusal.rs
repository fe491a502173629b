//! Why a token is refused: it is not a valid token now (401), or it does not allow the request (403).

use std::fmt;

use crate::caveat::CaveatKind;
use crate::token_error::TokenError;

/// A refusal. Shows nothing of the token but the name of a caveat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The token is not valid, or not now: another token is needed. HTTP status 401.
    Auth(AuthReason),
    /// The token is valid, and does not allow this request. HTTP status 403.
    Scope(ScopeReason),
}

names! {
    /// Why a token is not valid.
    AuthReason {
        /// The text is not a token.
        Malformed "malformed",
        /// The keyring does not have the key of the token.
        UnknownKey "unknown_key",
        /// The signature is wrong.
        BadSignature "bad_signature",
        /// The key of the token is retired.
        KeyRetired "key_retired",
        /// The key of the token is compromised.
        KeyCompromised "key_compromised",
        /// The nonce of the token is revoked. The server finds this out, because revocations are not in the token.
        Revoked "revoked",
        /// The token has no caveat `expires`.
        NoExpiry "no_expiry",
        /// The time of a caveat `not_before` has not come.
        NotYetValid "not_yet_valid",
        /// The time of a caveat `expires` has come.
        Expired "expired",
    }
}

/// Why a token does not allow a request.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeReason {
    /// A caveat of this kind does not hold.
    Caveat(CaveatKind),
    /// The request names a tenant, and the token was minted without a caveat `tenant`.
    NoTenant,
    /// The token has a caveat that this version does not understand, or whose value is not valid: its name, or `?`.
    UnknownCaveat(String),
}

impl Refusal {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Auth(reason) => reason.as_str(),
            Self::Scope(ScopeReason::Caveat(_)) => "caveat",
            Self::Scope(ScopeReason::NoTenant) => "no_tenant",
            Self::Scope(ScopeReason::UnknownCaveat(_)) => "unknown_caveat",
        }
    }

    /// The name of the caveat that refuses the request, if one does.
    pub fn caveat(&self) -> Option<&str> {
        match self {
            Self::Scope(ScopeReason::Caveat(kind)) => Some(kind.as_str()),
            Self::Scope(ScopeReason::UnknownCaveat(name)) => Some(name),
            _ => None,
        }
    }
}

impl AuthReason {
    fn sentence(self) -> &'static str {
        match self {
            Self::Malformed => "the token is malformed: pass it exactly as it was issued",
            Self::UnknownKey => "this server does not have the key of the token: use a token of this server",
            Self::BadSignature => "the signature of the token is wrong: pass it exactly as it was issued",
            Self::KeyRetired => "the key of the token is retired: get a new token",
            Self::KeyCompromised => "the key of the token is compromised: get a new token",
            Self::Revoked => "the token is revoked: get a new token",
            Self::NoExpiry => "the token has no caveat `expires`: get a token that ends",
            Self::NotYetValid => "the token is not valid yet: wait for its `not_before`, or check the clocks",
            Self::Expired => "the token has expired: get a new token",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auth(reason) => f.write_str(reason.sentence()),
            Self::Scope(ScopeReason::Caveat(kind)) => {
                write!(f, "a caveat `{kind}` of the token does not allow this request: use another token")
            }
            Self::Scope(ScopeReason::NoTenant) => {
                f.write_str("the token reaches no tenant: use a token that was minted with a caveat `tenant`")
            }
            Self::Scope(ScopeReason::UnknownCaveat(name)) => {
                write!(f, "this server does not understand a caveat `{name}` of the token: use another token")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl From<AuthReason> for Refusal {
    fn from(reason: AuthReason) -> Self {
        Self::Auth(reason)
    }
}

impl From<ScopeReason> for Refusal {
    fn from(reason: ScopeReason) -> Self {
        Self::Scope(reason)
    }
}

/// For a server that refuses a text that is not a token.
impl From<TokenError> for Refusal {
    fn from(_: TokenError) -> Self {
        Self::Auth(AuthReason::Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthReason, Refusal, ScopeReason};
    use crate::caveat::CaveatKind;
    use crate::operation::{ApiNamespace, ApiOperation};

    /// The reference names everything that exists, and each caveat as it is written.
    #[test]
    fn the_reference_is_complete() {
        let page = include_str!("../../../docs/reference/capabilities.md");
        let mut expected: Vec<String> =
            CaveatKind::ALL.iter().map(|kind| kind.example().to_owned()).collect();
        expected.extend(ApiOperation::ALL.iter().map(ToString::to_string));
        expected.extend(ApiNamespace::ALL.iter().map(ToString::to_string));
        expected.extend(AuthReason::ALL.iter().map(ToString::to_string));
        expected.extend(["caveat", "no_tenant", "unknown_caveat"].map(str::to_owned));
        for text in expected {
            assert!(
                page.contains(&format!("`{text}`")),
                "docs/reference/capabilities.md does not contain `{text}`"
            );
        }
    }

    #[test]
    fn a_refusal_has_a_reason_a_caveat_and_a_sentence() {
        let unknown = Refusal::from(ScopeReason::UnknownCaveat("aud".to_owned()));
        let caveat = Refusal::from(ScopeReason::Caveat(CaveatKind::TopicPrefix));
        let expired = Refusal::from(AuthReason::Expired);
        for (refusal, reason, name, text) in [
            (
                &unknown,
                "unknown_caveat",
                Some("aud"),
                "this server does not understand a caveat `aud` of the token: use another token",
            ),
            (
                &caveat,
                "caveat",
                Some("topic_prefix"),
                "a caveat `topic_prefix` of the token does not allow this request: use another token",
            ),
            (&expired, "expired", None, "the token has expired: get a new token"),
        ] {
            assert_eq!(
                (refusal.reason(), refusal.caveat(), refusal.to_string().as_str()),
                (reason, name, text)
            );
        }
    }
}
