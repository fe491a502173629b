//! Operating: orders that need no lease.

use std::time::Duration;

use oncebox_core::{Action, AttemptCount, Bound, DeadReason, GrantEnd, Operated, Order, Policy, Ref, State};

use super::intake::NO_BOUND;
use super::{Facts, Illegal, Model};

impl Model {
    /// What `operate` has to answer.
    pub fn operate(&mut self, order: &Order, answer: &Operated) -> Result<Operated, Illegal> {
        self.catch_up();
        let Some(index) = self.find(&order.target) else {
            return self.operate_unknown(order, answer);
        };
        if order.action == Action::Erase {
            let receipt = self.receipt(index);
            self.rows.remove(index);
            return Ok(Operated::Changed(receipt));
        }
        if !self.applies(index, &order.action) {
            return Ok(Operated::Unchanged(self.receipt(index)));
        }
        let message = &self.rows[index].message;
        if let (Action::Redrive { lane_max, .. }, Some(content)) = (&order.action, &message.content)
            && self.is_lane_full(message.key.namespace, content, *lane_max)
        {
            // When to come again, and how it counts, is up to the store.
            return Ok(match answer {
                Operated::Saturated { bound, .. } if bound.name == Bound::LANE_MESSAGES => answer.clone(),
                _ => Operated::Saturated { retry_after: Duration::ZERO, bound: NO_BOUND },
            });
        }
        self.end_grant(index, GrantEnd::Lost);
        // A key that was free once does not come back.
        let held = self.rows[index].message.holds_key(self.now);
        self.rows[index].message.keyed = held;
        self.carry_out(index, &order.action);
        Ok(Operated::Changed(self.receipt(index)))
    }

    /// Nothing is found: only a mark as processed, by key, makes something of it.
    fn operate_unknown(&mut self, order: &Order, answer: &Operated) -> Result<Operated, Illegal> {
        let (Ref::Key(key), Action::MarkProcessed { hold }) = (&order.target, &order.action) else {
            return Ok(Operated::Unknown);
        };
        let drawn = match answer {
            Operated::Changed(receipt) => Some(receipt.uid),
            _ => None,
        };
        let index = self.add(self.drawn_uid(drawn)?, key, Policy::bare(*hold));
        self.finish(index);
        Ok(Operated::Changed(self.receipt(index)))
    }

    /// Whether the order changes something.
    fn applies(&self, index: usize, action: &Action) -> bool {
        let message = &self.rows[index].message;
        let unfinished = matches!(message.state, State::Seen | State::Processing);
        match action {
            _ if message.state == State::Done => false,
            Action::MarkProcessing => message.state != State::Processing || message.is_leased(),
            Action::MarkProcessed { .. } => true,
            Action::MarkDead { .. } | Action::Cancel => unfinished,
            Action::Redrive { times_max, .. } => {
                message.state == State::Dead && times_max.is_none_or(|most| message.redrives < most)
            }
            other => unreachable!("the model does not know {other:?}"),
        }
    }

    fn carry_out(&mut self, index: usize, action: &Action) {
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

    /// The message is to be handled (again).
    fn revive(&mut self, index: usize) {
        let message = &mut self.rows[index].message;
        message.state = State::Processing;
        message.dead = None;
        message.finished_at = None;
    }
}
