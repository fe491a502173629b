//! Retention queues for messages that are no longer processed, and the maintenance that clears them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use super::dead_letters::{self, DeadLetterIndex};
use super::message::{Membership, Message};
use super::sorted::Sorted;
use super::{CallContext, Effect, Machine};
use crate::id::Number;
use crate::key::Namespace;
use crate::limits::REPEAT_WINDOW;
use crate::message::MessageState;
use crate::payload::PayloadHandle;
use crate::port::{Budget, DeadLetters, MaintenanceReport, Retention};
use crate::time::Timestamp;

/// The messages of one state: those that must be kept, by the end of that requirement, and those that need not, by age.
#[derive(Default)]
struct RetentionQueue {
    required: Sorted<(Timestamp, Number)>,
    discardable: Sorted<(Timestamp, Number)>,
}

/// Identifies a retention queue.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QueueName {
    Done,
    /// Seen and not leased.
    Seen,
    Dead,
    /// Dead, in the mailbox. Those that are no longer required are in the `DeadLetterIndex`.
    DeadLetter,
}

#[derive(Default)]
pub(super) struct RetentionQueues {
    by_name: [RetentionQueue; 4],
    dead_letters: DeadLetterIndex,
    /// Dead messages by number: operators list them often, and they are few among millions.
    pub(super) dead_numbers: BTreeMap<Number, Slot>,
}

impl RetentionQueues {
    fn get(&mut self, name: QueueName) -> &mut RetentionQueue {
        &mut self.by_name[name as usize]
    }

    /// When the next Done message may be forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.by_name[QueueName::Done as usize].required.first().map(|((at, _), _)| at)
    }
}

/// The retention queue of a message; none while it is processed.
fn queue_of<P>(message: &Message<P>) -> Option<QueueName> {
    match message.state {
        MessageState::Done => Some(QueueName::Done),
        MessageState::Dead if message.key.namespace == Namespace::Mailbox => Some(QueueName::DeadLetter),
        MessageState::Dead => Some(QueueName::Dead),
        MessageState::Seen => Some(QueueName::Seen),
        MessageState::Processing => None,
    }
}

/// Until when a message must be kept, whatever the retention: its dedup window was promised to the sender, and repeats
/// of its last settlement need an answer.
fn required_until<P>(message: &Message<P>) -> Timestamp {
    let promised = if message.keyed { message.dedup_until() } else { Timestamp::EPOCH };
    match message.state {
        MessageState::Done | MessageState::Dead => {
            promised.max(message.finished_or_retry_at.after(REPEAT_WINDOW))
        }
        MessageState::Seen | MessageState::Processing => promised,
    }
}

/// The moment at which the retention of its state starts.
fn retention_start<P>(message: &Message<P>) -> Timestamp {
    if message.state == MessageState::Seen { message.accepted_at } else { message.finished_at() }
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn retain(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let name = queue_of(message).expect("a retained message is not Processing");
        let class = match name {
            QueueName::Done => Class::Done,
            QueueName::Dead | QueueName::DeadLetter => Class::Dead,
            QueueName::Seen => Class::Seen,
        };
        if class == Class::Dead {
            self.retention_queues.dead_numbers.insert(message.number, slot);
        }
        self.retention_queues.get(name).required.insert((required_until(message), message.number), slot);
        self.classify(slot, class);
    }

    pub(super) fn unretain(&mut self, slot: Slot, membership: Membership) {
        let message = &self.messages[slot];
        if message.state == MessageState::Dead {
            self.retention_queues.dead_numbers.remove(&message.number);
        }
        let Some(name) = queue_of(message) else { return };
        let (required, discardable) =
            ((required_until(message), message.number), (retention_start(message), message.number));
        match (membership, name) {
            (Membership::Discardable, QueueName::DeadLetter) => {
                let topic = self.lanes.topic_of(message.lane);
                self.retention_queues.dead_letters.remove(topic, discardable);
            }
            (Membership::Discardable, _) => self.retention_queues.get(name).discardable.remove(discardable),
            _ => self.retention_queues.get(name).required.remove(required),
        }
    }

    /// Performs a bounded amount of maintenance; see [`crate::Store::maintain`].
    pub fn maintain(&mut self, context: &mut CallContext<'_, P>, budget: Budget) -> MaintenanceReport {
        let (mut forgotten, mut dead_letters_forgotten) = (0, 0);
        if self.catch_up(context, budget.items_max) {
            for (name, keep) in retentions(&budget) {
                // A Done message is forgotten as soon as it is no longer required; the others wait for their retention.
                if name != QueueName::Done {
                    self.make_discardable(name, budget.items_max);
                }
                while forgotten < u64::from(budget.items_max)
                    && let Some(slot) = self.over(name, keep)
                {
                    self.commit(context.journal, slot, Effect::Dropped);
                    forgotten += 1;
                }
            }
            self.make_discardable(QueueName::DeadLetter, budget.items_max);
            if let Some(retention) = &budget.dead_letters {
                let left = u64::from(budget.items_max) - forgotten;
                dead_letters_forgotten = self.forget_dead_letters(context, retention, left);
            }
            let left = u64::from(budget.items_max).saturating_sub(forgotten + dead_letters_forgotten);
            self.remove_expired_records(context, u32::try_from(left).unwrap_or(u32::MAX));
        }
        let events = std::mem::take(&mut self.timer_events);
        let (lapsed, expired, next_due) = (events.lapsed, events.expired, self.next_due(budget));
        forgotten += dead_letters_forgotten;
        MaintenanceReport {
            lapsed,
            expired,
            died: events.deaths(),
            forgotten,
            dead_letters_forgotten,
            next_due,
        }
    }

    /// Moves messages that are no longer required to `discardable`.
    fn make_discardable(&mut self, name: QueueName, items_max: u32) {
        for _ in 0..items_max {
            let RetentionQueues { by_name: queues, dead_letters, .. } = &mut self.retention_queues;
            let queue = &mut queues[name as usize];
            let first = queue.required.first().filter(|((until, _), _)| *until <= self.now);
            let Some((key, slot)) = first else { return };
            queue.required.remove(key);
            let message = &mut self.messages[slot];
            message.membership = Membership::Discardable;
            let key = (retention_start(message), message.number);
            match name {
                QueueName::DeadLetter => dead_letters.insert(self.lanes.topic_of(message.lane), key, slot),
                QueueName::Done | QueueName::Seen | QueueName::Dead => queue.discardable.insert(key, slot),
            }
        }
    }

    /// A message that exceeds its retention.
    fn over(&mut self, name: QueueName, keep: Option<Duration>) -> Option<Slot> {
        let queue = self.retention_queues.get(name);
        let first = if name == QueueName::Done { queue.required.first() } else { queue.discardable.first() };
        let ((since, _), slot) = first?;
        (since.after(keep?) <= self.now).then_some(slot)
    }

    /// Forgets dead letters, topic by topic; returns how many.
    fn forget_dead_letters(
        &mut self,
        context: &mut CallContext<'_, P>,
        retention: &DeadLetters,
        items_max: u64,
    ) -> u64 {
        let mut forgotten = 0;
        let own = dead_letters::topic_retentions(&self.lanes, retention);
        for (topic, own) in &own {
            forgotten += self.forget_topic_dead_letters(context, *topic, *own, items_max - forgotten);
        }
        while forgotten < items_max
            && let Some(topic) =
                self.retention_queues.dead_letters.next_topic_over(retention.default, &own, self.now)
        {
            forgotten +=
                self.forget_topic_dead_letters(context, topic, retention.default, items_max - forgotten);
        }
        forgotten
    }

    fn forget_topic_dead_letters(
        &mut self,
        context: &mut CallContext<'_, P>,
        topic: Slot,
        retention: Retention,
        items_max: u64,
    ) -> u64 {
        let mut forgotten = 0;
        while forgotten < items_max
            && let Some(slot) = self.retention_queues.dead_letters.over(topic, retention, self.now)
        {
            self.commit(context.journal, slot, Effect::Dropped);
            forgotten += 1;
        }
        forgotten
    }

    /// When the next timer event or retention is due. A call in between may bring an earlier moment.
    pub fn next_due(&mut self, budget: Budget) -> Option<Timestamp> {
        let timer = self.timers.next();
        let queues = retentions(&budget).into_iter().filter_map(|(name, keep)| {
            let queue = self.retention_queues.get(name);
            let required = queue.required.first().map(|((until, _), _)| until);
            let discardable =
                queue.discardable.first().map(|((since, _), _)| since.after(keep.unwrap_or_default()));
            keep.and(required.into_iter().chain(discardable).min())
        });
        let queues = queues.min();
        let dead_letters = budget.dead_letters.and_then(|retention| {
            let required = self
                .retention_queues
                .get(QueueName::DeadLetter)
                .required
                .first()
                .map(|((until, _), _)| until);
            let own = dead_letters::topic_retentions(&self.lanes, &retention);
            required
                .into_iter()
                .chain(self.retention_queues.dead_letters.next_due(retention.default, &own, self.now))
                .min()
        });
        timer.into_iter().chain(queues).chain(dead_letters).min().filter(|at| *at != Timestamp::NEVER)
    }
}

/// How long the messages of each queue are kept in addition to what is required, except dead letters, which have a
/// retention per topic.
fn retentions(budget: &Budget) -> [(QueueName, Option<Duration>); 3] {
    let done = (QueueName::Done, Some(Duration::ZERO));
    [done, (QueueName::Dead, budget.dead_keep), (QueueName::Seen, budget.seen_keep)]
}
