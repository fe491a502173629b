//! An operator's orders, which need no lease.

use std::time::Duration;

use oncebox_core::{
    Action, AttemptCount, Bound, DeadReason, GrantEnd, MessageRef, MessageState, Operated, Order, Policy,
};

use super::accept::NO_BOUND;
use super::{Facts, Illegal, Model};

impl Model {
    /// The expected outcome of `operate`.
    pub fn operate(&mut self, order: &Order, answer: &Operated) -> Result<Operated, Illegal> {
        self.catch_up();
        let Some(index) = self.find(&order.target) else {
            return self.operate_unknown(order, answer);
        };
        if order.action == Action::Erase {
            let summary = self.summary(index);
            self.rows.remove(index);
            return Ok(Operated::Changed(summary));
        }
        if !self.applies(index, &order.action) {
            return Ok(Operated::Unchanged(self.summary(index)));
        }
        let message = &self.rows[index].message;
        if let (Action::Redrive { lane_max, .. }, Some(content)) = (&order.action, &message.content)
            && self.is_lane_full(message.key.namespace, content, *lane_max)
        {
            // The store is free to choose when to retry and how to count.
            return Ok(match answer {
                Operated::Saturated { bound, .. } if bound.name == Bound::LANE_MESSAGES => answer.clone(),
                _ => Operated::Saturated { retry_after: Duration::ZERO, bound: NO_BOUND },
            });
        }
        self.end_grant(index, GrantEnd::Lost);
        // A key that was free once is not taken back.
        let held = self.rows[index].message.holds_key(self.now);
        self.rows[index].message.keyed = held;
        self.apply_order(index, &order.action);
        Ok(Operated::Changed(self.summary(index)))
    }

    /// The message is unknown: only marking a key as processed has an effect.
    fn operate_unknown(&mut self, order: &Order, answer: &Operated) -> Result<Operated, Illegal> {
        let (MessageRef::Key(key), Action::MarkProcessed { hold }) = (&order.target, &order.action) else {
            return Ok(Operated::Unknown);
        };
        let generated = match answer {
            Operated::Changed(summary) => Some(summary.uid),
            _ => None,
        };
        let index = self.add(self.generated_uid(generated)?, key, Policy::bare(*hold));
        self.finish(index);
        Ok(Operated::Changed(self.summary(index)))
    }

    /// Whether the order changes the message.
    fn applies(&self, index: usize, action: &Action) -> bool {
        let message = &self.rows[index].message;
        let unfinished = matches!(message.state, MessageState::Seen | MessageState::Processing);
        match action {
            _ if message.state == MessageState::Done => false,
            Action::MarkProcessing => message.state != MessageState::Processing || message.is_leased(),
            Action::MarkProcessed { .. } => true,
            Action::MarkDead { .. } | Action::Cancel => unfinished,
            Action::Redrive { times_max, .. } => {
                message.state == MessageState::Dead && times_max.is_none_or(|most| message.redrives < most)
            }
            other => unreachable!("the model does not know {other:?}"),
        }
    }

    fn apply_order(&mut self, index: usize, action: &Action) {
        match action {
            Action::MarkProcessing => self.revive(index),
            Action::MarkProcessed { .. } => self.finish(index),
            Action::MarkDead { error } => {
                self.die(index, DeadReason::Failed);
                if error.is_some() {
                    self.rows[index].message.last_error.clone_from(error);
                }
            }
            Action::Cancel => self.die(index, DeadReason::Cancelled),
            Action::Redrive { attempts, .. } => {
                self.revive(index);
                self.renumber(index);
                let message = &mut self.rows[index].message;
                message.retry_at = None;
                message.redrives += 1;
                if let Some(content) = &mut message.content {
                    content.due = None;
                    content.expires = None;
                }
                if *attempts == AttemptCount::Reset {
                    message.attempts = 0;
                }
            }
            other => unreachable!("the model does not know {other:?}"),
        }
    }

    /// Makes the message Processing again.
    fn revive(&mut self, index: usize) {
        let message = &mut self.rows[index].message;
        message.state = MessageState::Processing;
        message.dead = None;
        message.finished_at = None;
    }
}
