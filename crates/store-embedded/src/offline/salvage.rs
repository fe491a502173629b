//! Everything that a damaged journal still says, put together again.

use std::time::Duration;

use oncebox_core::machine::{Capacity, Effect, Machine, Record};
use oncebox_core::{Error, Lease, Timestamp};

use super::reading::{Groups, Reading};
use crate::codec::{self, Boot, Damaged, Entry, Reader};
use crate::disk::Disk;
use crate::engine::Engine;

/// What could be put together again.
pub(super) struct Salvaged {
    pub(super) machine: Machine,
    pub(super) boot: Boot,
    /// The highest number of an opening that left a trace.
    pub(super) epoch: u64,
    /// The highest moment that was recorded.
    pub(super) time: Timestamp,
    /// Effects on messages that are not there.
    pub(super) effects_lost: u64,
}

impl Salvaged {
    /// Enacts every group that can be understood, in order; a group that cannot is left out whole.
    pub(super) fn from(reading: &mut Reading, disk: &dyn Disk) -> Result<(Self, Groups), Error> {
        let mut salvaged = Self {
            machine: Machine::new(Capacity::default()),
            boot: Boot::default(),
            epoch: 0,
            time: Timestamp::EPOCH,
            effects_lost: 0,
        };
        let groups = reading.groups(disk, &mut |group, frames| {
            let entries = entries(group)?;
            let times = frames.iter().map(|frame| Timestamp::from_millis(frame.header.time_ms));
            salvaged.time = times.fold(salvaged.time, Timestamp::max);
            for entry in entries {
                salvaged.take(entry);
            }
            Ok(())
        })?;
        salvaged.time = salvaged.time.max(salvaged.machine.now());
        Ok((salvaged, groups))
    }

    fn take(&mut self, entry: Entry) {
        match entry {
            Entry::Effect(stored) => {
                let record = stored.record();
                self.note_lease(&record);
                self.effects_lost += u64::from(!self.machine.salvage(record));
            }
            Entry::Boot(boot) => {
                boot.replay(&mut self.machine);
                self.epoch = self.epoch.max(boot.epoch);
                let longest_lease = boot.longest_lease.max(self.boot.longest_lease);
                let number_next = boot.number_next.max(self.boot.number_next);
                self.boot = Boot { longest_lease, number_next, opened_after: None, ..boot };
            }
        }
    }

    /// A lease tells of the opening that granted it, and how long leases were, even if its message is not there.
    fn note_lease(&mut self, record: &Record<'_>) {
        let lease = match record.effect {
            Effect::Granted { lease, .. } => Some(lease),
            Effect::Restored(snapshot) => snapshot.grant.as_ref().map(|grant| grant.lease),
            _ => None,
        };
        if let Some(Lease { fence, until, .. }) = lease {
            self.epoch = self.epoch.max(fence.get() >> Engine::FENCE_BITS);
            // A message that is written again may have had its lease prolonged while it was held back.
            let granted = matches!(record.effect, Effect::Granted { .. });
            let length = if granted { until.since(record.at) } else { Duration::ZERO };
            self.boot.longest_lease = self.boot.longest_lease.max(length);
        }
    }

    /// What the next opening must know. If something was lost, so may be leases that somebody still holds: as after the end
    /// of the machine, nothing is given out for as long as the longest of them.
    pub(super) fn boot(&self, lossy: bool) -> Boot {
        let number_next = self.boot.number_next.max(self.machine.next_number().0);
        let boot = Boot { number_next, ..self.boot.clone() };
        if lossy { Boot { id: "repaired".to_owned(), closed: false, ..boot } } else { boot }
    }
}

fn entries(group: &[u8]) -> Result<Vec<Entry>, Damaged> {
    let (mut reader, mut entries) = (Reader(group), Vec::new());
    while !reader.is_at_end() {
        entries.push(codec::decode_entry(&mut reader)?);
    }
    Ok(entries)
}
