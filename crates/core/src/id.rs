//! Ids that Oncebox assigns: uid, owner, request, fence, acceptance number; and the source of new uids.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};
use std::str::FromStr;

use uuid::Uuid;

use crate::error::Invalid;
use crate::time::Timestamp;

macro_rules! uuid_text {
    ($name:ident, $field:literal, $from:expr, $to:expr) => {
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&Uuid::from_u128($to(self)), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                let uuid = Uuid::try_parse(text).map_err(|_| Invalid::new($field, "is not a UUID"))?;
                $from(uuid.as_u128())
            }
        }
    };
}

/// The identity of one message: any UUID. Generated uids are version 7.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(u128);

impl Uid {
    /// The uid with this value.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn as_u128(self) -> u128 {
        self.0
    }

    /// A version 7 UUID for this moment; uses 74 bits of `random`.
    pub fn v7(now: Timestamp, random: u128) -> Self {
        const MILLIS_MASK: u128 = (1 << 48) - 1;
        let millis = u128::from(now.as_millis()) & MILLIS_MASK;
        let high = (random >> 64) & 0xFFF;
        let low = random & ((1 << 62) - 1);
        Self((millis << 80) | (0x7 << 76) | (high << 64) | (0b10 << 62) | low)
    }
}

uuid_text!(Uid, "uid", |value| Ok(Uid(value)), |uid: &Uid| uid.0);

/// The worker that holds a lease: any UUID except the nil UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner(NonZeroU128);

impl Owner {
    /// Accepts any value except zero (IBX-043, IBX-130).
    pub fn new(value: u128) -> Result<Self, Invalid> {
        NonZeroU128::new(value)
            .map(Self)
            .ok_or(Invalid::new("owner", "is the nil UUID: give each worker its own"))
    }

    /// The value.
    pub const fn as_u128(self) -> u128 {
        self.0.get()
    }
}

uuid_text!(Owner, "owner", Owner::new, |owner: &Owner| owner.0.get());

/// Identifies one claim call, so that its repeat returns the same deliveries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u128);

impl RequestId {
    /// The request id with this value.
    pub const fn from_u128(value: u128) -> Self {
        Self(value)
    }

    /// The value.
    pub const fn as_u128(self) -> u128 {
        self.0
    }
}

uuid_text!(RequestId, "request", |value| Ok(RequestId(value)), |request: &RequestId| request.0);

/// Orders the leases of a message: strictly increasing. A store never assigns a fence twice, not even after a crash or
/// a purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(NonZeroU64);

impl Fence {
    /// Accepts any value except zero.
    pub fn new(value: u64) -> Result<Self, Invalid> {
        NonZeroU64::new(value).map(Self).ok_or(Invalid::new("fence", "must be greater than zero"))
    }

    /// The value.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

/// The position of a message in its lane: assigned at acceptance, and again at redrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number(pub u64);

/// A shard of a topic's messages; order is kept within each shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Shard(pub u16);

/// A source of random bits.
pub trait Rng: Send {
    /// 64 random bits.
    fn next_u64(&mut self) -> u64;
}

/// A source of new uids.
pub trait IdSource: Send {
    /// A uid that no message has.
    fn next_uid(&mut self, now: Timestamp) -> Uid;
}

impl<R: Rng> IdSource for R {
    fn next_uid(&mut self, now: Timestamp) -> Uid {
        let random = (u128::from(self.next_u64()) << 64) | u128::from(self.next_u64());
        Uid::v7(now, random)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Fence, Owner, Uid};
    use crate::time::Timestamp;

    /// Holds: IBX-043, IBX-130.
    #[test]
    fn the_nil_owner_is_refused() {
        assert_eq!(Owner::new(0).unwrap_err().to_string(), "owner is the nil UUID: give each worker its own");
        assert!("00000000-0000-0000-0000-000000000000".parse::<Owner>().is_err());
        assert!(Fence::new(0).is_err());
    }

    /// Holds: RULE-02.
    #[test]
    fn our_uids_are_version_7_and_sort_by_time() {
        let early = Uid::v7(Timestamp::from_millis(1_000), u128::MAX);
        let late = Uid::v7(Timestamp::from_millis(1_001), 0);
        assert!(early < late);
        let uuid = Uuid::from_u128(early.as_u128());
        assert_eq!(uuid.get_version_num(), 7);
        assert_eq!(uuid.get_variant(), uuid::Variant::RFC4122);
        assert_eq!(early.to_string().parse::<Uid>().unwrap(), early);
    }
}
