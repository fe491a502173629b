//! The codes that represent enum values in the tables, and the encoding of timestamps and durations.

use std::time::Duration;

use oncebox_core::limits::{CALL_ITEMS_MAX, CLAIM_MESSAGES_MAX};
use oncebox_core::{
    DeadReason, Divergence, Error, ErrorKind, Keep, Key, MessageState, Namespace, Timestamp, VerdictKind,
};
use uuid::Uuid;

/// Numbers per id block: a call has fewer items.
pub(crate) const ID_BLOCK_SIZE: i64 = ID_BLOCK_ITEMS as i64;
const ID_BLOCK_ITEMS: u32 = 16_384;

const _: () = assert!(CALL_ITEMS_MAX < ID_BLOCK_ITEMS as usize && CLAIM_MESSAGES_MAX < ID_BLOCK_ITEMS);

pub(crate) const STATES: [MessageState; 4] =
    [MessageState::Seen, MessageState::Processing, MessageState::Done, MessageState::Dead];

/// In the order of their stored codes.
pub(crate) const REASONS: [DeadReason; 7] = [
    DeadReason::Failed,
    DeadReason::Exhausted,
    DeadReason::Expired,
    DeadReason::Cancelled,
    DeadReason::Integrity,
    DeadReason::Unhandled,
    DeadReason::Undecodable,
];

pub(crate) const DIVERGENCES: [Divergence; 3] =
    [Divergence::Replace, Divergence::KeepFirst, Divergence::Conflict];

pub(crate) const KINDS: [VerdictKind; 4] =
    [VerdictKind::Ack, VerdictKind::Abandon, VerdictKind::Fail, VerdictKind::Release];

/// The code of a value: its index in the list.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the lists are short")]
pub(crate) fn code<T: PartialEq + Copy>(all: &[T], value: T) -> i16 {
    all.iter().position(|item| *item == value).expect("every value is in its list") as i16
}

/// The value of a code.
pub(crate) fn from_code<T: Copy>(all: &[T], code: i16) -> Result<T, Error> {
    let found = usize::try_from(code).ok().and_then(|code| all.get(code));
    found.copied().ok_or_else(|| corrupt_row("has a code that this version does not know"))
}

pub(crate) fn namespace(namespace: Namespace) -> i16 {
    code(&Namespace::ALL, namespace)
}

/// The error for a row that this program cannot have written.
pub(crate) fn corrupt_row(what: &str) -> Error {
    let message =
        format!("a row of the store {what}: it was changed by hand, or by a newer version of oncebox");
    Error::new(ErrorKind::Corrupt, message)
}

/// Saturates at the maximum, which means "never".
fn saturating_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn timestamp_ms(at: Timestamp) -> i64 {
    saturating_i64(at.as_millis())
}

pub(crate) fn timestamp(stamp: i64) -> Timestamp {
    if stamp == i64::MAX {
        return Timestamp::NEVER;
    }
    Timestamp::from_millis(u64::try_from(stamp).unwrap_or_default())
}

/// Whole milliseconds, rounded up.
pub(crate) fn millis(duration: Duration) -> i64 {
    timestamp_ms(Timestamp::EPOCH.after(duration))
}

/// Instead of milliseconds: the message holds its key until it is finished.
pub(crate) const UNTIL_FINISHED: i64 = -1;

/// How long a message holds its key beyond the window; `None` if it does not.
pub(crate) fn keep_ms(keep: Keep) -> Option<i64> {
    match keep {
        Keep::Window => None,
        Keep::UntilFinished => Some(UNTIL_FINISHED),
        Keep::After(keep) => Some(millis(keep)),
    }
}

pub(crate) fn duration(millis: i64) -> Duration {
    timestamp(millis).since(Timestamp::EPOCH)
}

/// Encodes message numbers and fences.
pub(crate) fn bigint(value: u64) -> i64 {
    saturating_i64(value)
}

pub(crate) fn from_bigint(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| corrupt_row("has a negative number"))
}

/// The hash by which a key is looked up. Two keys with the same hash would be treated as one, which would require a
/// BLAKE3 collision.
pub(crate) fn key_hash(key: &Key) -> Uuid {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&[namespace(key.namespace).to_le_bytes()[0]]);
    hasher.update(&(key.source.as_str().len() as u64).to_le_bytes());
    hasher.update(key.source.as_str().as_bytes());
    hasher.update(key.id.as_str().as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Uuid::from_bytes(bytes)
}
