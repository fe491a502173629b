//! Rebuilds the messages from everything that can be read of a damaged journal.

use std::time::Duration;

use oncebox_core::machine::{Capacity, Effect, Machine, TimedEffect};
use oncebox_core::{Error, Lease, Timestamp};

use super::analysis::{Analysis, Groups};
use crate::codec::{self, Boot, Damaged, Entry, Reader};
use crate::disk::Disk;
use crate::engine::Engine;

/// The result of salvaging.
pub(super) struct Salvaged {
    pub(super) machine: Machine,
    pub(super) boot: Boot,
    /// The highest epoch that left a trace.
    pub(super) epoch: u64,
    /// The highest recorded store time.
    pub(super) time: Timestamp,
    /// Effects on missing messages.
    pub(super) effects_lost: u64,
}

impl Salvaged {
    /// Applies every group that can be decoded, in order; a group that cannot be decoded is left out completely.
    pub(super) fn from(analysis: &mut Analysis, disk: &dyn Disk) -> Result<(Self, Groups), Error> {
        let mut salvaged = Self {
            machine: Machine::new(Capacity::default()),
            boot: Boot::default(),
            epoch: 0,
            time: Timestamp::EPOCH,
            effects_lost: 0,
        };
        let groups = analysis.groups(disk, &mut |group, frames| {
            let entries = entries(group)?;
            let times = frames.iter().map(|frame| Timestamp::from_millis(frame.header.time_ms));
            salvaged.time = times.fold(salvaged.time, Timestamp::max);
            for entry in entries {
                salvaged.apply(entry);
            }
            Ok(())
        })?;
        salvaged.time = salvaged.time.max(salvaged.machine.now());
        Ok((salvaged, groups))
    }

    fn apply(&mut self, entry: Entry) {
        match entry {
            Entry::Effect(stored) => {
                let record = stored.record();
                self.note_lease(&record);
                self.effects_lost += u64::from(!self.machine.salvage(record));
            }
            Entry::Record(record) => record.replay(self.machine.records_mut()),
            Entry::Boot(boot) => {
                boot.replay(&mut self.machine);
                self.epoch = self.epoch.max(boot.epoch);
                let longest_lease = boot.longest_lease.max(self.boot.longest_lease);
                let number_next = boot.number_next.max(self.boot.number_next);
                self.boot = Boot { longest_lease, number_next, opened_after: None, ..boot };
            }
        }
    }

    /// Records the epoch and the length of a lease, even if its message is missing.
    fn note_lease(&mut self, record: &TimedEffect<'_>) {
        let lease = match record.effect {
            Effect::Granted { lease, .. } => Some(lease),
            Effect::Restored(snapshot) => snapshot.grant.as_ref().map(|grant| grant.lease),
            _ => None,
        };
        if let Some(Lease { fence, until, .. }) = lease {
            self.epoch = self.epoch.max(fence.get() >> Engine::FENCE_BITS);
            // In a rewritten message, the lease may have been extended while the message was held back.
            let granted = matches!(record.effect, Effect::Granted { .. });
            let length = if granted { until.since(record.at) } else { Duration::ZERO };
            self.boot.longest_lease = self.boot.longest_lease.max(length);
        }
    }

    /// The boot record for the next open. If something was lost, leases that workers still hold may be lost too: as
    /// after a crash of the machine, nothing is delivered until the longest of them would have ended.
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
