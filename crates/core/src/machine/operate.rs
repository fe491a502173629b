//! An operator's orders: they need no lease, and end a current one.

use super::arena::Slot;
use super::counts::cost_of_key;
use super::{CallContext, Effect, Machine};
use crate::key::MessageRef;
use crate::message::{DeadReason, MessageState};
use crate::payload::PayloadHandle;
use crate::port::{Action, Operated, Order};

impl<P: PayloadHandle> Machine<P> {
    /// Executes one order; see [`Action`].
    pub fn operate(&mut self, context: &mut CallContext<'_, P>, order: &Order) -> Operated {
        self.advance(context);
        let Some(slot) = self.resolve(&order.target) else { return self.operate_unknown(context, order) };
        let Some(effect) = self.effect_of(slot, &order.action) else {
            return Operated::Unchanged(self.summary(slot));
        };
        if let Action::Redrive { lane_max: Some(limit), .. } = order.action
            && let Some((retry_after, bound)) = self.check_lane(self.messages[slot].lane, limit)
        {
            return Operated::Saturated { retry_after, bound };
        }
        if matches!(effect, Effect::Dropped) {
            let summary = self.summary(slot);
            self.commit(context.journal, slot, effect);
            return Operated::Changed(summary);
        }
        self.commit(context.journal, slot, effect);
        Operated::Changed(self.summary(slot))
    }

    /// For a free key, only marking it as processed has an effect.
    fn operate_unknown(&mut self, context: &mut CallContext<'_, P>, order: &Order) -> Operated {
        let (MessageRef::Key(key), Action::MarkProcessed { hold }) = (&order.target, &order.action) else {
            return Operated::Unknown;
        };
        if let Some((retry_after, bound)) = self.check_capacity(cost_of_key(key)) {
            return Operated::Saturated { retry_after, bound };
        }
        let slot = self.record(context, self.hash_key(key), key, *hold, None, MessageState::Done);
        Operated::Changed(self.summary(slot))
    }

    /// The effect of an action on a message in its current state; none if it does not apply.
    fn effect_of<'a>(&self, slot: Slot, action: &'a Action) -> Option<Effect<'a, P>> {
        let message = &self.messages[slot];
        let leased = self.is_leased(message);
        match (action, message.state) {
            (Action::Erase, _) => Some(Effect::Dropped),
            (_, MessageState::Done) => None,
            (Action::MarkProcessing, MessageState::Processing) if !leased => None,
            (Action::MarkProcessing, _) => Some(Effect::Marked { state: MessageState::Processing }),
            (Action::MarkProcessed { .. }, _) => Some(Effect::Marked { state: MessageState::Done }),
            (Action::Redrive { attempts, times_max, .. }, MessageState::Dead)
                if times_max.is_none_or(|most| message.redrives() < most) =>
            {
                Some(Effect::Redriven { number: self.next_number(), attempts: *attempts })
            }
            (Action::Redrive { .. }, _) | (_, MessageState::Dead) => None,
            (Action::MarkDead { error }, _) => {
                Some(Effect::Killed { reason: DeadReason::Failed, error: error.as_ref() })
            }
            (Action::Cancel, _) => Some(Effect::Killed { reason: DeadReason::Cancelled, error: None }),
        }
    }
}
