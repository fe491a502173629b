//! The machine together with the group of effects that is being filled. Knows no threads and no disk.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::machine::{Capacity, Effect, Journal, Machine, Record, Resume, Turn};
use oncebox_core::{Clock, Error, Fence, IdSource, Kind, Number, Timestamp, Uid};

use crate::codec::{self, Boot, Entry, Reader, Writer};

/// Space that writing messages again leaves.
const AGAIN_BYTES: usize = 4_096;

/// Effects on their way into the journal.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) bytes: Writer,
    /// The messages that it brings in whole.
    pub(crate) homes: Vec<Uid>,
    /// Store time of the newest effect.
    pub(crate) time: Timestamp,
    /// Time alone has changed something. That is not written, it follows from the time of the group, which must be.
    pub(crate) timed: bool,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.0.is_empty() && !self.timed
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.0.clear();
        self.homes.clear();
        self.timed = false;
    }
}

impl Journal for Group {
    fn record(&mut self, record: Record<'_>) {
        self.timed |= record.effect.is_of_time();
        if let Effect::Accepted { .. } | Effect::Recorded { .. } | Effect::Restored(_) = record.effect {
            self.homes.push(record.uid);
        }
        codec::encode(&mut self.bytes, record);
    }
}

pub(crate) struct Engine {
    pub(crate) machine: Machine,
    pub(crate) group: Group,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Box<dyn IdSource>,
    boot: Boot,
}

/// An opening of the store.
pub(crate) struct Opening {
    /// How many there were, with this one.
    pub(crate) epoch: u64,
    /// Fences are given out from this one on.
    pub(crate) fence_floor: Fence,
    /// The newest moment that was recorded.
    pub(crate) recorded: Timestamp,
    /// The run of the operating system.
    pub(crate) boot_id: String,
}

impl Engine {
    /// Bits of a fence that count within one opening; the opening's own number stands above them.
    pub(crate) const FENCE_BITS: u32 = 40;

    /// The first fence of an opening; none if the store was opened more often than fences can tell.
    pub(crate) fn fence_floor(epoch: u64) -> Option<Fence> {
        Fence::new(epoch.checked_mul(1 << Self::FENCE_BITS)?).ok()
    }

    /// An engine on what was recovered, in which everything has happened that time has brought.
    pub(crate) fn new(
        recovering: Recovering,
        opening: Opening,
        clock: Arc<dyn Clock>,
        ids: Box<dyn IdSource>,
    ) -> Self {
        let Recovering { mut machine, boot: before } = recovering;
        let Opening { epoch, fence_floor, recorded, boot_id: id } = opening;
        // A clock that is behind what was recorded must not make the time of a lease shorter.
        let now = clock.now().max(machine.now()).max(recorded);
        // Leases survive the end of the process, but not that of the machine.
        let lost_leases = !before.closed && before.id != id && before.longest_lease > Duration::ZERO;
        let held_until = if lost_leases { now.after(before.longest_lease) } else { before.held_until };
        let held_until = if held_until > now { held_until } else { Timestamp::EPOCH };
        let number_floor = Number(before.number_next);
        machine.pass_time_again(recorded);
        machine.resume(Resume { now, number_floor, fence_floor, held_until });
        let boot = Boot {
            id,
            longest_lease: before.longest_lease,
            held_until,
            opened_after: Some(recorded),
            epoch,
            closed: false,
            number_next: machine.next_number().0,
        };
        let mut engine = Self { machine, group: Group::default(), clock, ids, boot };
        engine.write_boot();
        engine.boot.opened_after = None;
        while !engine.catch_up(u32::MAX) {}
        engine
    }

    /// Writes what the next opening must know.
    pub(crate) fn write_boot(&mut self) {
        self.group.time = self.clock.now();
        self.boot.number_next = self.machine.next_number().0;
        codec::encode_boot(&mut self.group.bytes, &self.boot);
    }

    /// Runs one call on the machine; its effects go into the group.
    pub(crate) fn run<T>(&mut self, call: impl FnOnce(&mut Machine, &mut Turn<'_>) -> T) -> T {
        let now = self.clock.now();
        self.group.time = now;
        let mut turn = Turn { now, ids: self.ids.as_mut(), journal: &mut self.group };
        call(&mut self.machine, &mut turn)
    }

    /// Lets a bounded number of events happen that time has brought. Answers whether that was all.
    pub(crate) fn catch_up(&mut self, events_max: u32) -> bool {
        self.run(|machine, turn| machine.catch_up(turn, events_max))
    }

    /// Notes a lease that is about to be granted. Answers whether that must be durable before it is.
    pub(crate) fn note_lease(&mut self, lease: Duration) -> bool {
        let longer = lease > self.boot.longest_lease;
        if longer {
            self.boot.longest_lease = lease;
            self.write_boot();
        }
        longer
    }

    /// Notes that the store is closed, once everything else is durable.
    pub(crate) fn note_close(&mut self) {
        self.boot.closed = true;
        self.write_boot();
    }

    /// Bytes that it takes to write messages again whole, with what frames add; counted only until they are more than `bytes_max`.
    pub(crate) fn weigh(&self, homes: &[Uid], bytes_max: u64) -> u64 {
        let (mut scratch, mut total) = (Writer::default(), AGAIN_BYTES as u64);
        for snapshot in homes.iter().filter_map(|uid| self.machine.peek(*uid)) {
            scratch.0.clear();
            let record =
                Record { at: self.machine.now(), uid: snapshot.uid, effect: Effect::Restored(&snapshot) };
            codec::encode(&mut scratch, record);
            let bytes = scratch.0.len() as u64;
            total += bytes + bytes / 32;
            if total > bytes_max {
                break;
            }
        }
        total
    }

    /// Writes messages again whole, so that the segment they lived in can go; a piece of them that fits into `room`. Answers
    /// how much room it lacked, if it lacked any.
    pub(crate) fn write_again(&mut self, homes: &mut Vec<Uid>, bytes_max: usize, room: usize) -> usize {
        let before = self.group.bytes.0.len();
        let at = self.machine.now();
        while self.group.bytes.0.len() - before < bytes_max
            && let Some(uid) = homes.pop()
        {
            let Some(snapshot) = self.machine.peek(uid) else { continue };
            let start = self.group.bytes.0.len();
            self.group.record(Record { at, uid, effect: Effect::Restored(&snapshot) });
            let written = self.group.bytes.0.len() - before;
            // Frames add a little to what is written.
            let needed = written + written / 32 + AGAIN_BYTES;
            if needed > room {
                self.group.bytes.0.truncate(start);
                self.group.homes.pop();
                homes.push(uid);
                return needed;
            }
        }
        0
    }
}

/// A machine that is being replayed.
pub(crate) struct Recovering {
    pub(crate) machine: Machine,
    pub(crate) boot: Boot,
}

impl Recovering {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { machine: Machine::new(capacity), boot: Boot::default() }
    }

    /// Replays one group; answers with the messages that it brought in whole.
    pub(crate) fn replay(&mut self, group: &[u8]) -> Result<Vec<Uid>, Error> {
        let mut homes = Vec::new();
        let mut reader = Reader(group);
        while !reader.is_at_end() {
            let damaged =
                |damaged| Error::new(Kind::Corrupt, format!("the journal cannot be read: {damaged}"));
            match codec::decode_entry(&mut reader).map_err(damaged)? {
                Entry::Effect(stored) => {
                    homes.extend(stored.brings());
                    self.machine.replay(stored.record());
                }
                Entry::Boot(boot) => {
                    boot.replay(&mut self.machine);
                    self.boot = boot;
                }
            }
        }
        Ok(homes)
    }
}

impl Boot {
    /// Does again what an opening did to the leases that it found: none ends before what it was held back for.
    pub(crate) fn replay(&self, machine: &mut Machine) {
        let Some(recorded) = self.opened_after else { return };
        machine.pass_time_again(recorded);
        if self.held_until > Timestamp::EPOCH {
            machine.hold_back(self.held_until);
        }
    }
}
