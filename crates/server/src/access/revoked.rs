//! What is revoked: tokens by their nonce, and all tokens of a key.

use std::collections::HashMap;
use std::fmt;

use oncebox_capability::{AuthReason, Identifier, KeyId, Nonce};
use oncebox_core::Timestamp;
use serde::{Deserialize, Serialize};

/// What a revocation ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum RevocationTarget {
    /// A token, and everything that was attenuated from it.
    Nonce(Nonce),
    /// All tokens of a key.
    Key(KeyId),
}

impl fmt::Display for RevocationTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nonce(nonce) => write!(f, "nonce:{nonce}"),
            Self::Key(key) => write!(f, "key:{key}"),
        }
    }
}

impl RevocationTarget {
    /// Parses the text of a target.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (kind, id) = text.split_once(':')?;
        match kind {
            "nonce" => Nonce::parse(id).map(Self::Nonce),
            "key" => KeyId::new(id).ok().map(Self::Key),
            _ => None,
        }
    }
}

/// A revocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Revocation {
    pub(crate) target: RevocationTarget,
    pub(crate) details: RevocationDetails,
    /// When it was made.
    pub(crate) since: Timestamp,
}

/// The stored part of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RevocationDetails {
    /// Settlements of deliveries in flight are refused too.
    pub(crate) compromised: bool,
    pub(crate) actor: String,
    pub(crate) reason: String,
}

/// All revocations.
#[derive(Debug, Default)]
pub(crate) struct Revoked(HashMap<RevocationTarget, Revocation>);

impl Revoked {
    pub(super) fn get(&self, target: &RevocationTarget) -> Option<&Revocation> {
        self.0.get(target)
    }

    /// The revocations, in the order of their targets.
    pub(crate) fn list(&self) -> Vec<&Revocation> {
        let mut list: Vec<_> = self.0.values().collect();
        list.sort_by(|one, other| one.target.cmp(&other.target));
        list
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Why a token with this identifier is not valid, if it is revoked. The stricter reason counts.
    pub(super) fn reason(&self, identifier: &Identifier) -> Option<AuthReason> {
        let nonce = self.get(&RevocationTarget::Nonce(identifier.nonce));
        let key = self.get(&RevocationTarget::Key(identifier.key.clone()));
        let is_compromised = |revocation: &Revocation| revocation.details.compromised;
        match (nonce, key) {
            (None, None) => None,
            (nonce, key) if nonce.into_iter().chain(key).any(is_compromised) => {
                Some(AuthReason::KeyCompromised)
            }
            _ => Some(AuthReason::Revoked),
        }
    }
}

impl FromIterator<Revocation> for Revoked {
    fn from_iter<I: IntoIterator<Item = Revocation>>(revocations: I) -> Self {
        Self(revocations.into_iter().map(|revocation| (revocation.target.clone(), revocation)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revocation(target: RevocationTarget, compromised: bool) -> Revocation {
        let details = RevocationDetails { compromised, actor: String::new(), reason: String::new() };
        Revocation { target, details, since: Timestamp::from_millis(1) }
    }

    #[test]
    fn a_token_is_revoked_by_its_nonce_or_its_key_and_the_stricter_one_counts() {
        let (nonce, key) = (Nonce::new([1; 16]), KeyId::new("k1").unwrap());
        let token = Identifier { key: key.clone(), nonce };
        let by_nonce = |compromised| revocation(RevocationTarget::Nonce(nonce), compromised);
        let by_key = |compromised| revocation(RevocationTarget::Key(key.clone()), compromised);
        for (revocations, expected) in [
            (vec![], None),
            (vec![by_nonce(false)], Some(AuthReason::Revoked)),
            (vec![by_key(false)], Some(AuthReason::Revoked)),
            (vec![by_nonce(false), by_key(true)], Some(AuthReason::KeyCompromised)),
            (vec![by_nonce(true), by_key(false)], Some(AuthReason::KeyCompromised)),
            (vec![revocation(RevocationTarget::Nonce(Nonce::new([2; 16])), true)], None),
            (vec![revocation(RevocationTarget::Key(KeyId::new("k2").unwrap()), true)], None),
        ] {
            assert_eq!(Revoked::from_iter(revocations).reason(&token), expected);
        }
    }

    #[test]
    fn targets_have_one_text() {
        for target in
            [RevocationTarget::Nonce(Nonce::new([7; 16])), RevocationTarget::Key(KeyId::new("k1").unwrap())]
        {
            assert_eq!(RevocationTarget::parse(&target.to_string()), Some(target));
        }
        for text in ["", "nonce", "nonce:", "nonce:7", "key:", "key:K", "keys:k1", "k1"] {
            assert_eq!(RevocationTarget::parse(text), None, "{text}");
        }
    }
}
