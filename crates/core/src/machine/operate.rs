//! An operator's orders: no lease is needed, and a current one ends.

use super::arena::Slot;
use super::counts::cost_of_key;
use super::{Effect, Machine, Turn};
use crate::key::Ref;
use crate::message::{DeadReason, State};
use crate::payload::PayloadHandle;
use crate::port::{Action, Operated, Order};

impl<P: PayloadHandle> Machine<P> {
    /// Carries out one order; see [`Action`].
    pub fn operate(&mut self, turn: &mut Turn<'_, P>, order: &Order) -> Operated {
        self.advance(turn);
        let Some(slot) = self.resolve(&order.target) else { return self.operate_unknown(turn, order) };
        let Some(effect) = self.effect_of(slot, &order.action) else {
            return Operated::Unchanged(self.receipt(slot));
        };
        if let Action::Redrive { lane_max: Some(limit), .. } = order.action
            && let Some((retry_after, bound)) = self.full_lane(self.messages[slot].lane, limit)
        {
            return Operated::Saturated { retry_after, bound };
        }
        if matches!(effect, Effect::Dropped) {
            let receipt = self.receipt(slot);
            self.commit(turn.journal, slot, effect);
            return Operated::Changed(receipt);
        }
        self.commit(turn.journal, slot, effect);
        Operated::Changed(self.receipt(slot))
    }

    /// Only "this key is processed" makes sense for a key that nobody holds.
    fn operate_unknown(&mut self, turn: &mut Turn<'_, P>, order: &Order) -> Operated {
        let (Ref::Key(key), Action::MarkProcessed { hold }) = (&order.target, &order.action) else {
            return Operated::Unknown;
        };
        if let Some((retry_after, bound)) = self.full(cost_of_key(key)) {
            return Operated::Saturated { retry_after, bound };
        }
        let slot = self.record(turn, self.hash_key(key), key, *hold, None, State::Done);
        Operated::Changed(self.receipt(slot))
    }

    /// What an action does to a message in its present state; none if it does not apply.
    fn effect_of<'a>(&self, slot: Slot, action: &'a Action) -> Option<Effect<'a, P>> {
        let message = &self.messages[slot];
        let leased = self.is_leased(message);
        match (action, message.state) {
            (Action::Erase, _) => Some(Effect::Dropped),
            (_, State::Done) => None,
            (Action::MarkProcessing, State::Processing) if !leased => None,
            (Action::MarkProcessing, _) => Some(Effect::Marked { state: State::Processing }),
            (Action::MarkProcessed { .. }, _) => Some(Effect::Marked { state: State::Done }),
            (Action::Redrive { attempts, times_max, .. }, State::Dead)
                if times_max.is_none_or(|most| message.redrives() < most) =>
            {
                Some(Effect::Redriven { number: self.next_number(), attempts: *attempts })
            }
            (Action::Redrive { .. }, _) | (_, State::Dead) => None,
            (Action::MarkDead { error }, _) => {
                Some(Effect::Killed { reason: DeadReason::Failed, error: error.as_ref() })
            }
            (Action::Cancel, _) => Some(Effect::Killed { reason: DeadReason::Cancelled, error: None }),
        }
    }
}
