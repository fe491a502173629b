//! Replay: recorded effects enacted again, by the code that enacted them the first time.

use super::arena::Slot;
use super::{Effect, Machine, Record};
use crate::payload::PayloadHandle;
use crate::port::Settled;
use crate::time::Timestamp;

impl<P: PayloadHandle> Machine<P> {
    /// Enacts a recorded effect again, after what time had brought by then: every operation lets that happen first, each
    /// event at its own instant, so it follows from the records alone. Reads neither clock nor disk.
    ///
    /// Answers whether the effect fits. In a whole journal every one does. In one that was reclaimed, the message may have
    /// been written again later, or be gone: then nothing happens. Nothing happens either if the effect makes no sense.
    pub fn replay(&mut self, record: Record<'_, P>) -> bool {
        self.pass_time_again(record.at);
        if record.effect.is_of_time() {
            return true;
        }
        self.lanes.replaying = true;
        let fits = self.replay_quietly(record);
        self.lanes.replaying = false;
        fits
    }

    /// Lets everything happen again that time had brought by `until`, each event at its own instant.
    pub fn pass_time_again(&mut self, until: Timestamp) {
        self.lanes.replaying = true;
        while let Some((at, slot)) = self.timers.due(until) {
            self.now = self.now.max(at);
            self.tick(&mut (), slot);
        }
        self.now = self.now.max(until);
        self.lanes.replaying = false;
    }

    pub(super) fn replay_quietly(&mut self, record: Record<'_, P>) -> bool {
        let found = self.find_uid(record.uid);
        let key = match record.effect {
            Effect::Accepted { message, .. } => &message.key,
            Effect::Recorded { key, .. } => key,
            Effect::Restored(snapshot) => &snapshot.key,
            effect => {
                let fitting = found.filter(|slot| self.fits(*slot, effect));
                fitting.inspect(|slot| self.enact(*slot, effect));
                return fitting.is_some();
            }
        };
        if let Some(slot) = found {
            self.remove(slot);
        }
        self.enact_new(record.uid, self.hash_key(key), record.effect);
        true
    }

    /// Whether an effect can happen to a message as it stands.
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
