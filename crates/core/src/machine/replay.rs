//! Replay: applying recorded effects again, with the code that applied them the first time.

use super::arena::Slot;
use super::{Effect, Machine, TimedEffect};
use crate::message::Settled;
use crate::payload::PayloadHandle;
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    /// Applies a recorded effect again, after the timer events that were due by then. Every operation processes those
    /// first, each at its own instant, so they follow from the records alone. Reads neither clock nor disk.
    ///
    /// Returns whether the effect applies. In a complete journal every effect does. In a compacted journal the message
    /// may have been written again later, or be gone; then nothing happens, and neither does it if the effect is
    /// impossible.
    pub fn replay(&mut self, record: TimedEffect<'_, P>) -> bool {
        self.replay_timers(record.at);
        if record.effect.is_time_driven() {
            return true;
        }
        self.lanes.replaying = true;
        let fits = self.replay_record(record);
        self.lanes.replaying = false;
        fits
    }

    /// Processes the timer events up to `until` again, each at its own instant.
    pub fn replay_timers(&mut self, until: Timestamp) {
        self.lanes.replaying = true;
        while let Some((at, slot)) = self.timers.due(until) {
            self.now = self.now.max(at);
            self.tick(&mut (), slot);
        }
        self.now = self.now.max(until);
        self.lanes.replaying = false;
    }

    pub(super) fn replay_record(&mut self, record: TimedEffect<'_, P>) -> bool {
        let found = self.find_uid(record.uid);
        let key = match record.effect {
            Effect::Accepted { message, .. } => &message.key,
            Effect::Recorded { key, .. } => key,
            Effect::Restored(snapshot) => &snapshot.key,
            effect => {
                let fitting = found.filter(|slot| self.fits(*slot, effect));
                fitting.inspect(|slot| self.apply(*slot, effect));
                return fitting.is_some();
            }
        };
        if let Some(slot) = found {
            self.remove(slot);
        }
        self.apply_new(record.uid, self.hash_key(key), record.effect);
        true
    }

    /// Whether an effect is possible in the current state of a message.
    fn fits(&self, slot: Slot, effect: Effect<'_, P>) -> bool {
        let message = &self.messages[slot];
        let leased = self.is_leased(message);
        match effect {
            Effect::Settled { outcome, .. } => leased && outcome != Settled::LeaseLost,
            Effect::Extended { .. } => leased,
            Effect::Granted { .. } => !leased && self.partitions.is_free(message.partition),
            Effect::Replaced { .. } => message.has_content(),
            _ => true,
        }
    }
}
