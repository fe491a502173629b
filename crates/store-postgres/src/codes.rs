//! The small numbers that stand for names in the tables, and how moments and durations are written.

use std::time::Duration;

use oncebox_core::limits::{CALL_ITEMS_MAX, CLAIM_MESSAGES_MAX};
use oncebox_core::{
    DeadReason, Divergence, Error, Keep, Key, Kind, Namespace, State, Timestamp, VerdictKind,
};
use uuid::Uuid;

/// Numbers that belong to one ticket: a call has fewer items.
pub(crate) const TICKET: i64 = PLACES as i64;
const PLACES: u32 = 16_384;

const _: () = assert!(CALL_ITEMS_MAX < PLACES as usize && CLAIM_MESSAGES_MAX < PLACES);

pub(crate) const STATES: [State; 4] = [State::Seen, State::Processing, State::Done, State::Dead];

/// In the order of their codes, which are stored.
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

/// The code of a name: its place in the list.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the lists are short")]
pub(crate) fn code<T: PartialEq + Copy>(all: &[T], value: T) -> i16 {
    all.iter().position(|one| *one == value).expect("every name is in its list") as i16
}

/// The name that a code stands for.
pub(crate) fn named<T: Copy>(all: &[T], code: i16) -> Result<T, Error> {
    let found = usize::try_from(code).ok().and_then(|code| all.get(code));
    found.copied().ok_or_else(|| damaged("has a code that this version does not know"))
}

pub(crate) fn namespace(namespace: Namespace) -> i16 {
    code(&Namespace::ALL, namespace)
}

/// A row that cannot be ours.
pub(crate) fn damaged(what: &str) -> Error {
    let message =
        format!("a row of the store {what}: it was changed by hand, or by a newer version of oncebox");
    Error::new(Kind::Corrupt, message)
}

/// As far as the tables go, which is far enough; the end stands for "never".
fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn stamp(at: Timestamp) -> i64 {
    whole(at.as_millis())
}

pub(crate) fn moment(stamp: i64) -> Timestamp {
    if stamp == i64::MAX {
        return Timestamp::NEVER;
    }
    Timestamp::from_millis(u64::try_from(stamp).unwrap_or_default())
}

/// Whole milliseconds, rounded up.
pub(crate) fn millis(duration: Duration) -> i64 {
    stamp(Timestamp::EPOCH.after(duration))
}

/// A key that its message holds until it is finished, in place of milliseconds.
pub(crate) const UNTIL_FINISHED: i64 = -1;

/// What holds a key beyond its window; none if nothing does.
pub(crate) fn keep_ms(keep: Keep) -> Option<i64> {
    match keep {
        Keep::Window => None,
        Keep::UntilFinished => Some(UNTIL_FINISHED),
        Keep::After(keep) => Some(millis(keep)),
    }
}

pub(crate) fn duration(millis: i64) -> Duration {
    moment(millis).since(Timestamp::EPOCH)
}

/// Numbers and fences.
pub(crate) fn count(value: u64) -> i64 {
    whole(value)
}

pub(crate) fn counted(value: i64) -> Result<u64, Error> {
    u64::try_from(value).map_err(|_| damaged("has a negative number"))
}

/// What a key is found by. Two keys with the same hash would be taken for one, which is as likely as a broken BLAKE3.
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
