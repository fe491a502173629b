//! Encodes effects as bytes and decodes them. Decoding validates values as strictly as the public API does.

mod message;
mod reader;
mod record;
mod writer;

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::time::Duration;

use oncebox_core::machine::{Effect, TimedEffect};
use oncebox_core::{
    AttemptCount, CallerHash, DeadReason, Hold, Key, LastError, Lease, MessageState, NewMessage, Number,
    RequestId, Settled, Snapshot, Timestamp, Uid, VerdictKind, WorkerName,
};

pub(crate) use reader::{Damaged, Reader};
pub(crate) use record::{RecordEntry, encode_change, encode_last_version};
pub(crate) use writer::Writer;

/// An owned effect, as decoded from the journal.
#[derive(Debug)]
pub(crate) struct Stored {
    at: Timestamp,
    uid: Uid,
    effect: StoredEffect,
}

#[derive(Debug)]
enum StoredEffect {
    Accepted {
        number: Number,
        message: Box<NewMessage>,
    },
    Recorded {
        number: Number,
        key: Key,
        hold: Hold,
        hash: Option<CallerHash>,
        state: MessageState,
    },
    Restored(Box<Snapshot>),
    Observed {
        hash: Option<CallerHash>,
    },
    Filled {
        number: Number,
        message: Box<NewMessage>,
    },
    Replaced {
        message: Box<NewMessage>,
        diverged: bool,
    },
    Granted {
        lease: Lease,
        extendable_until: Timestamp,
        request: Option<RequestId>,
        attempts_max: Option<NonZeroU32>,
        worker: Option<WorkerName>,
    },
    Extended {
        until: Timestamp,
    },
    Settled {
        kind: VerdictKind,
        outcome: Settled,
        error: Option<LastError>,
    },
    Marked {
        state: MessageState,
    },
    Killed {
        reason: DeadReason,
        error: Option<LastError>,
    },
    Redriven {
        number: Number,
        attempts: AttemptCount,
    },
    Dropped,
}

impl Stored {
    /// The uid of the message if this effect is its base record.
    pub(crate) fn base_uid(&self) -> Option<Uid> {
        use StoredEffect::{Accepted, Recorded, Restored};
        matches!(self.effect, Accepted { .. } | Recorded { .. } | Restored(_)).then_some(self.uid)
    }

    /// The effect as a record for replay.
    pub(crate) fn record(&self) -> TimedEffect<'_> {
        let effect = match &self.effect {
            StoredEffect::Accepted { number, message } => Effect::Accepted { number: *number, message },
            StoredEffect::Recorded { number, key, hold, hash, state } => {
                Effect::Recorded { number: *number, key, hold: *hold, hash: hash.as_ref(), state: *state }
            }
            StoredEffect::Restored(snapshot) => Effect::Restored(snapshot),
            StoredEffect::Observed { hash } => Effect::Observed { hash: hash.as_ref() },
            StoredEffect::Filled { number, message } => Effect::Filled { number: *number, message },
            StoredEffect::Replaced { message, diverged } => Effect::Replaced { message, diverged: *diverged },
            StoredEffect::Granted { lease, extendable_until, request, attempts_max, worker } => {
                Effect::Granted {
                    lease: *lease,
                    extendable_until: *extendable_until,
                    request: *request,
                    attempts_max: *attempts_max,
                    worker: worker.as_ref(),
                }
            }
            StoredEffect::Extended { until } => Effect::Extended { until: *until },
            StoredEffect::Settled { kind, outcome, error } => {
                Effect::Settled { kind: *kind, outcome: *outcome, error: error.as_ref() }
            }
            StoredEffect::Marked { state } => Effect::Marked { state: *state },
            StoredEffect::Killed { reason, error } => {
                Effect::Killed { reason: *reason, error: error.as_ref() }
            }
            StoredEffect::Redriven { number, attempts } => {
                Effect::Redriven { number: *number, attempts: *attempts }
            }
            StoredEffect::Dropped => Effect::Dropped,
        };
        TimedEffect { at: self.at, uid: self.uid, effect }
    }
}

/// Appends one effect. Timer effects are not encoded: replay derives them from the time.
pub(crate) fn encode(writer: &mut Writer, record: TimedEffect<'_>) {
    let TimedEffect { at, uid, effect } = record;
    let mut start = |tag: u8| {
        writer.u8(tag);
        writer.timestamp(at);
        writer.uid(uid);
    };
    match effect {
        Effect::Accepted { number, message } => {
            start(1);
            writer.u64(number.0);
            writer.new_message(message);
        }
        Effect::Recorded { number, key, hold, hash, state } => {
            start(2);
            writer.u64(number.0);
            writer.key(key);
            writer.hold(&hold);
            writer.option(hash, Writer::hash);
            writer.state(state);
        }
        Effect::Restored(snapshot) => {
            start(3);
            writer.snapshot(snapshot);
        }
        Effect::Observed { hash } => {
            start(4);
            writer.option(hash, Writer::hash);
        }
        Effect::Filled { number, message } => {
            start(5);
            writer.u64(number.0);
            writer.new_message(message);
        }
        Effect::Replaced { message, diverged } => {
            start(6);
            writer.new_message(message);
            writer.flag(diverged);
        }
        Effect::Granted { lease, extendable_until, request, attempts_max, worker } => {
            start(7);
            writer.lease(&lease);
            writer.timestamp(extendable_until);
            writer.option(request.as_ref(), |writer, request| writer.u128(request.as_u128()));
            writer.u32(attempts_max.map_or(0, NonZeroU32::get));
            writer.option(worker, Writer::worker);
        }
        Effect::Extended { until } => {
            start(8);
            writer.timestamp(until);
        }
        Effect::Settled { kind, outcome, error } => {
            start(9);
            writer.verdict_kind(kind);
            writer.settled(outcome);
            writer.option(error, Writer::last_error);
        }
        Effect::Lapsed { .. } | Effect::Expired => {}
        Effect::Marked { state } => {
            start(10);
            writer.state(state);
        }
        Effect::Killed { reason, error } => {
            start(11);
            writer.dead_reason(reason);
            writer.option(error, Writer::last_error);
        }
        Effect::Redriven { number, attempts } => {
            start(12);
            writer.u64(number.0);
            writer.flag(attempts == AttemptCount::Reset);
        }
        Effect::Dropped => start(13),
    }
}

/// Reads the next effect.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Stored, Damaged> {
    let tag = reader.u8()?;
    let at = reader.timestamp()?;
    let uid = reader.uid()?;
    let effect = match tag {
        1 => StoredEffect::Accepted { number: reader.number()?, message: Box::new(reader.new_message()?) },
        2 => StoredEffect::Recorded {
            number: reader.number()?,
            key: reader.key()?,
            hold: reader.hold()?,
            hash: reader.option(Reader::hash)?,
            state: reader.state()?,
        },
        3 => StoredEffect::Restored(Box::new(reader.snapshot(uid)?)),
        4 => StoredEffect::Observed { hash: reader.option(Reader::hash)? },
        5 => StoredEffect::Filled { number: reader.number()?, message: Box::new(reader.new_message()?) },
        6 => StoredEffect::Replaced { message: Box::new(reader.new_message()?), diverged: reader.flag()? },
        7 => StoredEffect::Granted {
            lease: reader.lease()?,
            extendable_until: reader.timestamp()?,
            request: reader.option(|reader| reader.u128().map(RequestId::from_u128))?,
            attempts_max: reader.u32().map(NonZeroU32::new)?,
            worker: reader.option(Reader::worker)?,
        },
        8 => StoredEffect::Extended { until: reader.timestamp()? },
        9 => StoredEffect::Settled {
            kind: reader.verdict_kind()?,
            outcome: reader.settled()?,
            error: reader.option(Reader::last_error)?,
        },
        10 => StoredEffect::Marked { state: reader.state()? },
        11 => {
            StoredEffect::Killed { reason: reader.dead_reason()?, error: reader.option(Reader::last_error)? }
        }
        12 => StoredEffect::Redriven {
            number: reader.number()?,
            attempts: if reader.flag()? { AttemptCount::Reset } else { AttemptCount::Keep },
        },
        13 => StoredEffect::Dropped,
        _ => return Err(Damaged("an effect of an unknown kind")),
    };
    Ok(Stored { at, uid, effect })
}

/// The boot record: what one open of the store leaves for the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Boot {
    /// The boot id of the operating system; empty if unknown.
    pub(crate) id: String,
    /// No lease was granted or extended for longer than this.
    pub(crate) longest_lease: Duration,
    /// Messages that may have a lease lost in a crash are held back until this time; `EPOCH` if none are.
    pub(crate) held_until: Timestamp,
    /// Set in the first record of an open: the newest time recorded before it. Later copies of the record have none.
    pub(crate) opened_after: Option<Timestamp>,
    /// The epoch that wrote the record.
    pub(crate) epoch: u64,
    /// The store was closed, and everything is durable.
    pub(crate) closed: bool,
    /// Higher than every assigned number: numbers of removed messages must not be reused.
    pub(crate) number_next: u64,
}

/// One entry of a group.
#[derive(Debug)]
pub(crate) enum Entry {
    Effect(Stored),
    Record(RecordEntry),
    Boot(Boot),
}

const BOOT: u8 = 32;

/// Appends a boot record.
pub(crate) fn encode_boot(writer: &mut Writer, boot: &Boot) {
    writer.u8(BOOT);
    writer.text(&boot.id);
    writer.timestamp(Timestamp::EPOCH.after(boot.longest_lease));
    writer.timestamp(boot.held_until);
    writer.option(boot.opened_after.as_ref(), |writer, at| writer.timestamp(*at));
    writer.u64(boot.epoch);
    writer.flag(boot.closed);
    writer.u64(boot.number_next);
}

/// Reads the next entry of a group.
pub(crate) fn decode_entry(reader: &mut Reader<'_>) -> Result<Entry, Damaged> {
    match reader.0.first() {
        Some(&BOOT) => drop(reader.u8()?),
        Some(tag) if RecordEntry::starts_with(*tag) => return RecordEntry::decode(reader).map(Entry::Record),
        _ => return decode(reader).map(Entry::Effect),
    }
    Ok(Entry::Boot(Boot {
        id: reader.text()?.to_owned(),
        longest_lease: reader.u64().map(Duration::from_millis)?,
        held_until: reader.timestamp()?,
        opened_after: reader.option(Reader::timestamp)?,
        epoch: reader.u64()?,
        closed: reader.flag()?,
        number_next: reader.number()?.0,
    }))
}
