//! The external id of a mailbox message: its uid, formatted as a ULID.

use std::fmt;
use std::str::FromStr;

use oncebox_core::ascii::{AppendAscii, write_ascii};
use oncebox_core::{Invalid, Uid};

/// Crockford's alphabet.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Number of five-bit digits that 128 bits need.
const LENGTH: usize = 26;

/// The id of a mailbox message. Its text form is a ULID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MsgId(Uid);

impl MsgId {
    /// The uid that identifies the message in the rest of the API.
    pub fn uid(self) -> Uid {
        self.0
    }
}

impl From<Uid> for MsgId {
    fn from(uid: Uid) -> Self {
        Self(uid)
    }
}

impl From<MsgId> for oncebox_core::MessageRef {
    fn from(id: MsgId) -> Self {
        Self::Uid(id.0)
    }
}

impl MsgId {
    fn text(self) -> [u8; LENGTH] {
        let mut rest = self.0.as_u128();
        let mut text = [0; LENGTH];
        for digit in text.iter_mut().rev() {
            *digit = DIGITS[usize::try_from(rest & 31).unwrap_or_default()];
            rest >>= 5;
        }
        text
    }
}

impl fmt::Display for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_ascii(f, &self.text())
    }
}

impl AppendAscii for MsgId {
    fn append_to(&self, text: &mut Vec<u8>) {
        text.extend_from_slice(&self.text());
    }
}

impl fmt::Debug for MsgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MsgId {
    type Err = Invalid;

    /// Accepts upper and lower case, but not the letters that Crockford's encoding treats as aliases of digits.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let wrong = || Invalid::new("message id", "is not a ULID");
        if text.len() != LENGTH {
            return Err(wrong());
        }
        let value = text.bytes().try_fold(0_u128, |value, letter| {
            let digit = DIGITS.iter().position(|digit| *digit == letter.to_ascii_uppercase())?;
            value.checked_mul(32)?.checked_add(digit as u128)
        });
        value.map(|value| Self(Uid::from_u128(value))).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::Uid;

    use super::MsgId;

    /// Holds: MBX-C-9.
    #[test]
    fn a_message_id_is_a_ulid_and_round_trips_through_its_text() {
        let id = MsgId(Uid::from_u128(0x0188_BAC7_4AFA_78AA_BC3B_BD1E_EF28_D881));
        assert_eq!(id.to_string(), "01H2XCEJQTF2NBREXX3VQJHP41");
        assert_eq!("01h2xcejqtf2nbrexx3vqjhp41".parse::<MsgId>().unwrap(), id);
        let largest = MsgId(Uid::from_u128(u128::MAX));
        assert_eq!(largest.to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
        for malformed in
            ["", "1", "8ZZZZZZZZZZZZZZZZZZZZZZZZZ", "01H2XCEJQTF2NBREXX3VQJHP4U", "ü1H2XCEJQTF2NBREXX3VQJHP4"]
        {
            assert_eq!(malformed.parse::<MsgId>().unwrap_err().to_string(), "message id is not a ULID");
        }
    }
}
