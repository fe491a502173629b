//! Reads values from a slice. Every length, tag and string is validated.

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::{
    CallerHash, DeadReason, Divergence, Fence, Hold, Id, Invalid, Keep, Key, LastError, Lease, MessageState,
    Namespace, Number, Owner, Policy, Settled, Source, Timestamp, Trace, Uid, VerdictKind,
};

/// The bytes are not a valid encoding; the text says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Damaged(pub(crate) &'static str);

impl From<Invalid> for Damaged {
    fn from(_: Invalid) -> Self {
        Self("a value out of bounds")
    }
}

/// The part of a slice that is still to be read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Damaged("unexpected end of data"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.0.split_first_chunk::<N>().ok_or(Damaged("unexpected end of data"))?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Damaged> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, Damaged> {
        self.array().map(u128::from_le_bytes)
    }

    pub(crate) fn bytes_32(&mut self) -> Result<[u8; 32], Damaged> {
        self.array()
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Damaged> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Damaged("a flag that is neither 0 nor 1")),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged("a string that is not UTF-8"))
    }

    pub(crate) fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    pub(crate) fn timestamp(&mut self) -> Result<Timestamp, Damaged> {
        self.u64().map(Timestamp::from_millis)
    }

    pub(crate) fn uid(&mut self) -> Result<Uid, Damaged> {
        self.u128().map(Uid::from_u128)
    }

    /// A message number. The next one must fit, too.
    pub(crate) fn number(&mut self) -> Result<Number, Damaged> {
        const MAX: u64 = 1 << 63;
        match self.u64()? {
            number if number < MAX => Ok(Number(number)),
            _ => Err(Damaged("a message number that is out of range")),
        }
    }

    pub(crate) fn key(&mut self) -> Result<Key, Damaged> {
        let namespace = match self.u8()? {
            1 => Namespace::Inbox,
            2 => Namespace::Commands,
            3 => Namespace::Ledger,
            4 => Namespace::Mailbox,
            _ => return Err(Damaged("an unknown namespace")),
        };
        Ok(Key::new(namespace, Source::new(self.text()?)?, Id::new(self.text()?)?))
    }

    fn duration(&mut self) -> Result<Duration, Damaged> {
        self.u64().map(Duration::from_millis)
    }

    pub(crate) fn hold(&mut self) -> Result<Hold, Damaged> {
        let window = self.duration()?;
        let keep = match self.u8()? {
            0 => Keep::Window,
            1 => Keep::After(self.duration()?),
            2 => Keep::UntilFinished,
            _ => return Err(Damaged("an unknown hold")),
        };
        Ok(Hold { window, keep })
    }

    pub(crate) fn policy(&mut self) -> Result<Policy, Damaged> {
        Ok(Policy {
            attempts_max: NonZeroU32::new(self.u32()?),
            hold: self.hold()?,
            divergence: match self.u8()? {
                1 => Divergence::Replace,
                2 => Divergence::KeepFirst,
                3 => Divergence::Conflict,
                _ => return Err(Damaged("an unknown divergence policy")),
            },
            keep_finished: self.flag()?,
        })
    }

    pub(crate) fn hash(&mut self) -> Result<CallerHash, Damaged> {
        Ok(CallerHash::new(self.text()?, self.bytes()?)?)
    }

    pub(crate) fn trace(&mut self) -> Result<Trace, Damaged> {
        let trace = Trace::default().with_correlation(self.text()?)?;
        let trace = trace.with_causation(self.text()?)?;
        Ok(trace.with_tenant(self.text()?)?)
    }

    pub(crate) fn last_error(&mut self) -> Result<LastError, Damaged> {
        LastError::new(self.text()?).ok_or(Damaged("an empty error text"))
    }

    pub(crate) fn lease(&mut self) -> Result<Lease, Damaged> {
        Ok(Lease {
            owner: Owner::new(self.u128()?)?,
            fence: Fence::new(self.u64()?)?,
            until: self.timestamp()?,
        })
    }

    pub(crate) fn state(&mut self) -> Result<MessageState, Damaged> {
        match self.u8()? {
            1 => Ok(MessageState::Seen),
            2 => Ok(MessageState::Processing),
            3 => Ok(MessageState::Done),
            4 => Ok(MessageState::Dead),
            _ => Err(Damaged("an unknown state")),
        }
    }

    pub(crate) fn dead_reason(&mut self) -> Result<DeadReason, Damaged> {
        match self.u8()? {
            1 => Ok(DeadReason::Failed),
            2 => Ok(DeadReason::Exhausted),
            3 => Ok(DeadReason::Expired),
            4 => Ok(DeadReason::Cancelled),
            5 => Ok(DeadReason::Integrity),
            6 => Ok(DeadReason::Unhandled),
            7 => Ok(DeadReason::Undecodable),
            _ => Err(Damaged("an unknown dead reason")),
        }
    }

    pub(crate) fn verdict_kind(&mut self) -> Result<VerdictKind, Damaged> {
        match self.u8()? {
            1 => Ok(VerdictKind::Ack),
            2 => Ok(VerdictKind::Abandon),
            3 => Ok(VerdictKind::Fail),
            4 => Ok(VerdictKind::Release),
            _ => Err(Damaged("an unknown verdict")),
        }
    }

    pub(crate) fn settled(&mut self) -> Result<Settled, Damaged> {
        Ok(match self.u8()? {
            1 => Settled::Done,
            2 => Settled::Superseded,
            3 => Settled::Retrying { at: self.timestamp()? },
            4 => Settled::Released,
            5 => Settled::Dead { reason: self.dead_reason()? },
            _ => return Err(Damaged("an unknown settlement outcome")),
        })
    }
}
