//! The machine and the current group of effects. Knows nothing of threads and disks.

use std::sync::Arc;
use std::time::Duration;

use oncebox_core::machine::{
    CallContext, Capacity, Effect, Journal, Machine, RecordChange, RecordJournal, Resume, TimedEffect,
};
use oncebox_core::{Clock, Error, ErrorKind, Fence, IdSource, Number, Timestamp};

use crate::bases::{Base, Bases};
use crate::codec::{self, Boot, Entry, Reader, Writer};

/// Space that rewriting messages leaves free.
const REWRITE_HEADROOM_BYTES: usize = 4_096;

/// A group of effects that will be written to the journal together.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) bytes: Writer,
    /// What this group contains whole.
    pub(crate) bases: Bases,
    /// Store time of the newest effect.
    pub(crate) time: Timestamp,
    /// Whether timers have changed something. Timer effects are not written: they follow from the time of the group,
    /// which must be written.
    pub(crate) has_timer_effects: bool,
}

impl Group {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.0.is_empty() && !self.has_timer_effects
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.0.clear();
        self.bases.clear();
        self.has_timer_effects = false;
    }
}

impl Journal for Group {
    fn record(&mut self, record: TimedEffect<'_>) {
        self.has_timer_effects |= record.effect.is_time_driven();
        if let Effect::Accepted { .. } | Effect::Recorded { .. } | Effect::Restored(_) = record.effect {
            self.bases.push(Base::Message(record.uid));
        }
        codec::encode(&mut self.bytes, record);
    }
}

impl RecordJournal for Group {
    fn record_change(&mut self, kind: &str, change: RecordChange<'_>) {
        if let RecordChange::Written(record) = change {
            self.bases.push(Base::Record(kind.into(), record.version));
        }
        codec::encode_change(&mut self.bytes, kind, change);
    }
}

impl Group {
    /// Adds a message or record whole, as it is now. Returns whether it is still there.
    pub(crate) fn write_base(&mut self, machine: &Machine, base: &Base) -> bool {
        match base {
            Base::Message(uid) => {
                let Some(snapshot) = machine.peek(*uid) else { return false };
                self.record(TimedEffect {
                    at: machine.now(),
                    uid: *uid,
                    effect: Effect::Restored(&snapshot),
                });
            }
            Base::Record(kind, version) => {
                let Some(record) = machine.records().with_version(kind, *version) else { return false };
                self.record_change(kind, RecordChange::Written(record));
            }
        }
        true
    }
}

pub(crate) struct Engine {
    pub(crate) machine: Machine,
    pub(crate) group: Group,
    pub(crate) clock: Arc<dyn Clock>,
    ids: Box<dyn IdSource>,
    boot: Boot,
}

/// Parameters of one open of the store.
pub(crate) struct Opening {
    /// How often the store has been opened, including this time.
    pub(crate) epoch: u64,
    /// The first fence of this epoch.
    pub(crate) fence_floor: Fence,
    /// The newest recorded store time.
    pub(crate) recorded: Timestamp,
    /// The boot id of the operating system.
    pub(crate) boot_id: String,
}

impl Engine {
    /// Low bits of a fence, which count within one epoch; the high bits are the epoch.
    pub(crate) const FENCE_BITS: u32 = 40;

    /// The first fence of an epoch; none if the epoch does not fit into a fence.
    pub(crate) fn fence_floor(epoch: u64) -> Option<Fence> {
        Fence::new(epoch.checked_mul(1 << Self::FENCE_BITS)?).ok()
    }

    /// An engine on the recovered machine, with all due timer events processed.
    pub(crate) fn new(
        recovering: Recovering,
        opening: Opening,
        clock: Arc<dyn Clock>,
        ids: Box<dyn IdSource>,
    ) -> Self {
        let Recovering { mut machine, boot: before } = recovering;
        let Opening { epoch, fence_floor, recorded, boot_id: id } = opening;
        // A clock behind the recorded time must not shorten a lease.
        let now = clock.now().max(machine.now()).max(recorded);
        // Written leases survive a crash of the process, but not of the machine.
        let lost_leases = !before.closed && before.id != id && before.longest_lease > Duration::ZERO;
        let held_until = if lost_leases { now.after(before.longest_lease) } else { before.held_until };
        let held_until = if held_until > now { held_until } else { Timestamp::EPOCH };
        let number_floor = Number(before.number_next);
        machine.replay_timers(recorded);
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

    /// Adds a boot record, which the next open reads, to the group.
    pub(crate) fn write_boot(&mut self) {
        self.group.time = self.clock.now();
        self.boot.number_next = self.machine.next_number().0;
        codec::encode_boot(&mut self.group.bytes, &self.boot);
        for (kind, version) in self.machine.records().last_versions() {
            codec::encode_last_version(&mut self.group.bytes, kind, version);
        }
    }

    /// Runs one call on the machine; its effects go into the group.
    pub(crate) fn run<T>(&mut self, call: impl FnOnce(&mut Machine, &mut CallContext<'_>) -> T) -> T {
        let now = self.clock.now();
        self.group.time = now;
        let mut context = CallContext { now, ids: self.ids.as_mut(), journal: &mut self.group };
        call(&mut self.machine, &mut context)
    }

    /// Processes up to `events_max` due timer events. Returns whether none are left.
    pub(crate) fn catch_up(&mut self, events_max: u32) -> bool {
        self.run(|machine, context| machine.catch_up(context, events_max))
    }

    /// Records the length of a lease that is about to be granted. Returns whether this record must be durable before
    /// the grant.
    pub(crate) fn note_lease(&mut self, lease: Duration) -> bool {
        let longer = lease > self.boot.longest_lease;
        if longer {
            self.boot.longest_lease = lease;
            self.write_boot();
        }
        longer
    }

    /// Adds the close mark to the group.
    pub(crate) fn note_close(&mut self) {
        self.boot.closed = true;
        self.write_boot();
    }

    /// Bytes needed to rewrite this, frame overhead included. Stops counting above `bytes_max`.
    pub(crate) fn rewrite_bytes(&self, bases: &Bases, bytes_max: u64) -> u64 {
        let (mut scratch, mut total) = (Group::default(), REWRITE_HEADROOM_BYTES as u64);
        for base in bases.iter() {
            scratch.clear();
            scratch.write_base(&self.machine, &base);
            let bytes = scratch.bytes.0.len() as u64;
            total += bytes + bytes / 32;
            if total > bytes_max {
                break;
            }
        }
        total
    }

    /// Rewrites what a segment contains whole, so that it can be retired: about `bytes_max` bytes, as far as they fit
    /// into `space`. Returns the space needed if that was too little, otherwise zero.
    pub(crate) fn rewrite(&mut self, bases: &mut Bases, bytes_max: usize, space: usize) -> usize {
        let before = self.group.bytes.0.len();
        while self.group.bytes.0.len() - before < bytes_max
            && let Some(base) = bases.pop()
        {
            let start = self.group.bytes.0.len();
            if !self.group.write_base(&self.machine, &base) {
                continue;
            }
            let written = self.group.bytes.0.len() - before;
            // Frames add some overhead.
            let needed = written + written / 32 + REWRITE_HEADROOM_BYTES;
            if needed > space {
                self.group.bytes.0.truncate(start);
                self.group.bases.undo_push(&base);
                bases.push(base);
                return needed;
            }
        }
        0
    }
}

/// A machine during replay of the journal.
pub(crate) struct Recovering {
    pub(crate) machine: Machine,
    pub(crate) boot: Boot,
}

impl Recovering {
    pub(crate) fn new(capacity: Capacity) -> Self {
        Self { machine: Machine::new(capacity), boot: Boot::default() }
    }

    /// Replays one group. Returns what it contains whole.
    pub(crate) fn replay(&mut self, group: &[u8]) -> Result<Bases, Error> {
        let mut bases = Bases::default();
        let mut reader = Reader(group);
        while !reader.is_at_end() {
            let damaged =
                |damaged| Error::new(ErrorKind::Corrupt, format!("the journal cannot be read: {damaged}"));
            match codec::decode_entry(&mut reader).map_err(damaged)? {
                Entry::Effect(stored) => {
                    stored.base_uid().map(Base::Message).into_iter().for_each(|base| bases.push(base));
                    self.machine.replay(stored.record());
                }
                Entry::Record(record) => {
                    if let Some((kind, version)) = record.base() {
                        bases.push(Base::Record(kind, version));
                    }
                    record.replay(self.machine.records_mut());
                }
                Entry::Boot(boot) => {
                    boot.replay(&mut self.machine);
                    self.boot = boot;
                }
            }
        }
        Ok(bases)
    }
}

impl Boot {
    /// Repeats what an open did to the leases that it found: none ends before the time that it was held back until.
    pub(crate) fn replay(&self, machine: &mut Machine) {
        let Some(recorded) = self.opened_after else { return };
        machine.replay_timers(recorded);
        if self.held_until > Timestamp::EPOCH {
            machine.hold_back(self.held_until);
        }
    }
}
