//! The identifier of a token: `1:{key id}:{nonce}`.

use std::fmt;

use crate::key::KeyId;

/// The version of the caveats and of this form.
const VERSION: &str = "1";
const NONCE_BYTES: usize = 16;

/// Sixteen random bytes that name a token and everything attenuated from it. Written as 32 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce([u8; NONCE_BYTES]);

impl Nonce {
    /// The nonce with these bytes, which must be random.
    pub const fn new(bytes: [u8; NONCE_BYTES]) -> Self {
        Self(bytes)
    }

    /// Parses 32 lower-case hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok()?;
        let nonce = Self(number.to_be_bytes());
        // The canonical form only: no sign, no capitals, all digits.
        (nonce.to_string() == text).then_some(nonce)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; NONCE_BYTES] {
        &self.0
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What names a token: the key that signed it, and its nonce. Neither is secret.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identifier {
    /// The root key.
    pub key: KeyId,
    /// The nonce.
    pub nonce: Nonce,
}

impl Identifier {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (version, rest) = text.split_once(':')?;
        let (key, nonce) = rest.split_once(':')?;
        (version == VERSION).then_some(())?;
        Some(Self { key: KeyId::new(key).ok()?, nonce: Nonce::parse(nonce)? })
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{VERSION}:{}:{}", self.key, self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::{Identifier, Nonce};
    use crate::limits::IDENTIFIER_BYTES_MAX;

    #[test]
    fn an_identifier_has_one_form() {
        let longest = format!("1:{}:{}", "k".repeat(32), "f".repeat(32));
        assert_eq!(longest.len(), IDENTIFIER_BYTES_MAX);
        for text in ["1:k1:000102030405060708090a0b0c0d0e0f", &longest] {
            assert_eq!(Identifier::parse(text).unwrap().to_string(), text);
        }
        let digits = "000102030405060708090a0b0c0d0e0f";
        for text in [
            String::new(),
            format!("k1:{digits}"),
            format!("2:k1:{digits}"),
            format!("01:k1:{digits}"),
            format!("1::{digits}"),
            format!("1:K1:{digits}"),
            format!("1:k1:{digits}0"),
            format!("1:k1:{}", &digits[1..]),
            format!("1:k1:{}", digits.to_uppercase()),
            format!("1:k1:+{}", &digits[1..]),
            format!("1:k1:{digits}:"),
            format!(" 1:k1:{digits}"),
        ] {
            assert_eq!(Identifier::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn a_nonce_keeps_its_bytes_in_order() {
        let nonce = Nonce::parse("000102030405060708090a0b0c0d0e0f").unwrap();
        assert_eq!(nonce.as_bytes(), &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(format!("{nonce:?}"), "000102030405060708090a0b0c0d0e0f");
    }
}
