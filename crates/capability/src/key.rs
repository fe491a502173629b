//! Root keys: what they are called, their secret, and what may be done with them.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use crate::limits::{
    KEY_ID_BYTES_MAX, KEYS_COUNT_MAX, ROOT_KEY_BYTES_MAX, ROOT_KEY_BYTES_MIN, SKEW_SECONDS_MAX,
};

/// The id of a root key: 1 to 32 characters of `a-z`, `0-9`, `_` and `-`. Each token names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Accepts an id of the right form.
    pub fn new(id: &str) -> Result<Self, KeyError> {
        let is_allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
        let is_id = (1..=KEY_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(is_allowed);
        if is_id { Ok(Self(id.into())) } else { Err(KeyError::Id) }
    }

    /// The id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A secret that signs tokens. It is overwritten when it is dropped, and no text form shows it.
pub struct RootKey(Zeroizing<Box<[u8]>>);

impl RootKey {
    /// Copies 32 to 64 random bytes.
    pub fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        if !(ROOT_KEY_BYTES_MIN..=ROOT_KEY_BYTES_MAX).contains(&bytes.len()) {
            return Err(KeyError::Length { given: bytes.len() });
        }
        Ok(Self(Zeroizing::new(bytes.into())))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey")
    }
}

names! {
    /// What may be done with a root key.
    RootKeyStatus {
        /// Signs new tokens; tokens of this key are accepted.
        Active "active",
        /// Tokens of this key are accepted.
        Accepted "accepted",
        /// Tokens of this key are refused, and can at most settle deliveries in flight.
        Retired "retired",
        /// Another person may know the key: its tokens are refused without exception.
        Compromised "compromised",
    }
}

/// A key or a change of a keyring that is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The id has another form.
    #[error("a key id has 1 to {KEY_ID_BYTES_MAX} characters of a-z, 0-9, `_` and `-`: choose another")]
    Id,
    /// The key is too short or too long.
    #[error(
        "a root key has {ROOT_KEY_BYTES_MIN} to {ROOT_KEY_BYTES_MAX} bytes, not {given}: generate another"
    )]
    Length {
        /// The length of the key in bytes.
        given: usize,
    },
    /// Another key has the id.
    #[error("the key id `{0}` is in use: choose another")]
    IdInUse(KeyId),
    /// Another id has the same key.
    #[error("the key is the same as key `{0}`: generate another")]
    SameKey(KeyId),
    /// The keyring is full.
    #[error("there are {KEYS_COUNT_MAX} keys, which is the limit: remove retired keys from the key file")]
    TooMany,
    /// No key has the id.
    #[error("there is no key `{0}`: use the id of an existing key")]
    Unknown(KeyId),
    /// There would be no active key.
    #[error("`{0}` is the active key: rotate first")]
    Active(KeyId),
    /// A compromised key is never trusted again.
    #[error("the key `{0}` is compromised, which cannot be undone: rotate to a new key")]
    Compromised(KeyId),
    /// The tolerance for clocks is too large.
    #[error(
        "a clock tolerance of {given} s is too large, the limit is {SKEW_SECONDS_MAX} s: synchronize the clocks"
    )]
    Skew {
        /// The tolerance in seconds.
        given: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::{KeyError, KeyId, RootKey};

    #[test]
    fn a_key_id_has_few_characters_of_a_small_alphabet() {
        for id in ["a", "k1", "0", "2026-11_b", &"x".repeat(32)] {
            assert_eq!(KeyId::new(id).unwrap().as_str(), id);
        }
        for id in ["", "K1", "k 1", "k:1", "k.1", "ü", "k\n", &"x".repeat(33)] {
            assert_eq!(KeyId::new(id), Err(KeyError::Id), "{id}");
        }
    }

    #[test]
    fn a_root_key_has_a_minimum_length_and_is_never_shown() {
        for length in [0, 31, 65] {
            assert_eq!(RootKey::new(&vec![1; length]).unwrap_err(), KeyError::Length { given: length });
        }
        assert_eq!(format!("{:?}", RootKey::new(&[77; 32]).unwrap()), "RootKey");
        RootKey::new(&[77; 64]).unwrap();
    }
}
