//! Replay: recorded effects enacted again, by the code that enacted them the first time.

use super::arena::Slot;
use super::{Effect, Machine, Record};
use crate::payload::PayloadHandle;
use crate::port::Settled;

impl<P: PayloadHandle> Machine<P> {
    /// Enacts a recorded effect again. Decides nothing, reads neither clock nor disk.
    ///
    /// Answers whether the effect fits. In a whole journal every one does. In one that was reclaimed, the message may have
    /// been written again later, or be gone: then nothing happens. Nothing happens either if the effect makes no sense.
    pub fn replay(&mut self, record: Record<'_, P>) -> bool {
        self.lanes.replaying = true;
        let fits = self.replay_quietly(record);
        self.lanes.replaying = false;
        fits
    }

    pub(super) fn replay_quietly(&mut self, record: Record<'_, P>) -> bool {
        self.now = self.now.max(record.at);
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
            Effect::Extended { .. } | Effect::Lapsed { .. } => leased,
            Effect::Granted { .. } => !leased && self.partitions.is_free(message.partition),
            Effect::Replaced { .. } => message.has_content(),
            _ => true,
        }
    }
}
