//! Lease tokens: leases as text, for clients.

use std::fmt;
use std::str::FromStr;

use oncebox_core::ascii::{AppendAscii, append_hex, read_hex, write_hex};
use oncebox_core::{Delivery, Extension, Fence, Invalid, Owner, Settlement, Span, Uid, Verdict};

/// Identifies a lease. Clients store it as opaque text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct LeaseToken {
    pub(crate) uid: Uid,
    pub(crate) owner: Owner,
    pub(crate) fence: Fence,
}

impl LeaseToken {
    pub(crate) fn of<P>(delivery: &Delivery<P>) -> Self {
        Self { uid: delivery.uid, owner: delivery.lease.owner, fence: delivery.lease.fence }
    }

    /// The message.
    pub fn uid(self) -> Uid {
        self.uid
    }

    /// Who holds the lease.
    pub fn owner(self) -> Owner {
        self.owner
    }

    /// The fence of the lease.
    pub fn fence(self) -> Fence {
        self.fence
    }

    pub(crate) fn settle(self, verdict: Verdict) -> Settlement {
        Settlement { uid: self.uid, owner: self.owner, fence: self.fence, verdict }
    }

    pub(crate) fn extend(self, lease: Span) -> Extension {
        Extension { uid: self.uid, owner: self.owner, fence: self.fence, lease }
    }
}

impl LeaseToken {
    fn bytes(self) -> [u8; 40] {
        let mut bytes = [0; 40];
        bytes[..16].copy_from_slice(&self.uid.as_u128().to_be_bytes());
        bytes[16..32].copy_from_slice(&self.owner.as_u128().to_be_bytes());
        bytes[32..].copy_from_slice(&self.fence.get().to_be_bytes());
        bytes
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(f, &self.bytes())
    }
}

impl AppendAscii for LeaseToken {
    fn append_to(&self, text: &mut Vec<u8>) {
        append_hex(text, &self.bytes());
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for LeaseToken {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parse = || {
            let bytes = read_hex::<40>(text)?;
            let (uid, rest) = bytes.split_first_chunk()?;
            let (owner, fence) = rest.split_first_chunk()?;
            Some(Self {
                uid: Uid::from_u128(u128::from_be_bytes(*uid)),
                owner: Owner::new(u128::from_be_bytes(*owner)).ok()?,
                fence: Fence::new(u64::from_be_bytes(*fence.first_chunk()?)).ok()?,
            })
        };
        parse().ok_or(Invalid::new("lease token", "is not valid"))
    }
}

#[cfg(test)]
mod tests {
    use oncebox_core::{Fence, Owner, Uid};

    use super::LeaseToken;

    #[test]
    fn a_lease_token_round_trips_as_text_and_invalid_text_is_rejected() {
        let token = LeaseToken {
            uid: Uid::from_u128(u128::MAX),
            owner: Owner::new(7).unwrap(),
            fence: Fence::new(u64::MAX).unwrap(),
        };
        assert_eq!(token.to_string().parse::<LeaseToken>().unwrap(), token);
        let signed = token.to_string().replacen('f', "+", 1);
        for invalid in ["", "x", &signed, &"0".repeat(80), &"ü".repeat(40), &format!("{token}0")] {
            assert_eq!(invalid.parse::<LeaseToken>().unwrap_err().to_string(), "lease token is not valid");
        }
    }
}
