//! Shelves for what is no longer worked on, and the upkeep that clears them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use super::letters::{self, Letters};
use super::message::{Message, Place};
use super::sorted::Sorted;
use super::{Effect, Machine, Turn};
use crate::id::Number;
use crate::key::Namespace;
use crate::limits::REPEAT_WINDOW;
use crate::message::State;
use crate::payload::PayloadHandle;
use crate::port::{Budget, DeadLetters, Retention, Upkept};
use crate::time::Timestamp;

/// Messages in one state. What must be kept for a while lies by the end of that while; what need not, by age.
#[derive(Default)]
struct Shelf {
    bound: Sorted<(Timestamp, Number)>,
    free: Sorted<(Timestamp, Number)>,
}

/// Which shelf.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    Done,
    /// Seen and not leased.
    Seen,
    Dead,
    /// Dead, and of the mailbox. What need not be kept is in `letters`.
    DeadLetter,
}

#[derive(Default)]
pub(super) struct Shelves {
    by_name: [Shelf; 4],
    letters: Letters,
    /// Dead, by number: operators list it often, and it is rare among millions.
    pub(super) dead_numbers: BTreeMap<Number, Slot>,
}

impl Shelves {
    fn get(&mut self, name: Name) -> &mut Shelf {
        &mut self.by_name[name as usize]
    }

    /// When the next Done message may be forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.by_name[Name::Done as usize].bound.first().map(|((at, _), _)| at)
    }
}

/// The shelf that a message belongs on, unless it is worked on.
fn shelf_of<P>(message: &Message<P>) -> Option<Name> {
    match message.state {
        State::Done => Some(Name::Done),
        State::Dead if message.key.namespace == Namespace::Mailbox => Some(Name::DeadLetter),
        State::Dead => Some(Name::Dead),
        State::Seen => Some(Name::Seen),
        State::Processing => None,
    }
}

/// Until when a message must be kept, whatever the retention: its receipt promises to know duplicates, and repeats of its
/// last settlement want their answer.
fn bound_until<P>(message: &Message<P>) -> Timestamp {
    let promised = if message.keyed { message.dedup_until() } else { Timestamp::EPOCH };
    match message.state {
        State::Done | State::Dead => promised.max(message.moment.after(REPEAT_WINDOW)),
        State::Seen | State::Processing => promised,
    }
}

/// From when the retention of its state counts.
fn since<P>(message: &Message<P>) -> Timestamp {
    if message.state == State::Seen { message.accepted_at } else { message.finished_at() }
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn shelve(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let name = shelf_of(message).expect("what is worked on is not shelved");
        let class = match name {
            Name::Done => Class::Done,
            Name::Dead | Name::DeadLetter => Class::Dead,
            Name::Seen => Class::Seen,
        };
        if class == Class::Dead {
            self.shelves.dead_numbers.insert(message.number, slot);
        }
        self.shelves.get(name).bound.insert((bound_until(message), message.number), slot);
        self.classify(slot, class);
    }

    pub(super) fn unshelve(&mut self, slot: Slot, place: Place) {
        let message = &self.messages[slot];
        if message.state == State::Dead {
            self.shelves.dead_numbers.remove(&message.number);
        }
        let Some(name) = shelf_of(message) else { return };
        let (bound, free) = ((bound_until(message), message.number), (since(message), message.number));
        match (place, name) {
            (Place::Free, Name::DeadLetter) => {
                let topic = self.lanes.topic_of(message.lane);
                self.shelves.letters.remove(topic, free);
            }
            (Place::Free, _) => self.shelves.get(name).free.remove(free),
            _ => self.shelves.get(name).bound.remove(bound),
        }
    }

    /// Does a bounded piece of what time has made necessary.
    pub fn upkeep(&mut self, turn: &mut Turn<'_, P>, budget: Budget) -> Upkept {
        let (mut forgotten, mut dead_letters_forgotten) = (0, 0);
        if self.catch_up(turn, budget.items_max) {
            for (name, keep) in retentions(&budget) {
                // What is Done goes as soon as it need not be kept; the others wait for their retention.
                if name != Name::Done {
                    self.unbind(name, budget.items_max);
                }
                while forgotten < u64::from(budget.items_max)
                    && let Some(slot) = self.over(name, keep)
                {
                    self.commit(turn.journal, slot, Effect::Dropped);
                    forgotten += 1;
                }
            }
            self.unbind(Name::DeadLetter, budget.items_max);
            if let Some(retention) = &budget.dead_letters {
                let left = u64::from(budget.items_max) - forgotten;
                dead_letters_forgotten = self.forget_letters(turn, retention, left);
            }
        }
        let ended = std::mem::take(&mut self.ended);
        let (lapsed, expired, next_due) = (ended.lapsed, ended.expired, self.next_due(budget));
        forgotten += dead_letters_forgotten;
        Upkept { lapsed, expired, died: ended.deaths(), forgotten, dead_letters_forgotten, next_due }
    }

    /// Moves messages that need no longer be kept to where the retention finds them.
    fn unbind(&mut self, name: Name, items_max: u32) {
        for _ in 0..items_max {
            let Shelves { by_name: shelves, letters, .. } = &mut self.shelves;
            let kept = &mut shelves[name as usize];
            let first = kept.bound.first().filter(|((until, _), _)| *until <= self.now);
            let Some((key, slot)) = first else { return };
            kept.bound.remove(key);
            let message = &mut self.messages[slot];
            message.place = Place::Free;
            let key = (since(message), message.number);
            match name {
                Name::DeadLetter => letters.insert(self.lanes.topic_of(message.lane), key, slot),
                Name::Done | Name::Seen | Name::Dead => kept.free.insert(key, slot),
            }
        }
    }

    /// A message that the retention lets go.
    fn over(&mut self, name: Name, keep: Option<Duration>) -> Option<Slot> {
        let kept = self.shelves.get(name);
        let first = if name == Name::Done { kept.bound.first() } else { kept.free.first() };
        let ((since, _), slot) = first?;
        (since.after(keep?) <= self.now).then_some(slot)
    }

    /// Forgets dead letters, topic after topic; answers how many.
    fn forget_letters(&mut self, turn: &mut Turn<'_, P>, retention: &DeadLetters, items_max: u64) -> u64 {
        let mut forgotten = 0;
        let own = letters::own(&self.lanes, retention);
        for (topic, own) in &own {
            forgotten += self.forget_of(turn, *topic, *own, items_max - forgotten);
        }
        while forgotten < items_max
            && let Some(topic) = self.shelves.letters.next_over(retention.default, &own, self.now)
        {
            forgotten += self.forget_of(turn, topic, retention.default, items_max - forgotten);
        }
        forgotten
    }

    fn forget_of(
        &mut self,
        turn: &mut Turn<'_, P>,
        topic: Slot,
        retention: Retention,
        items_max: u64,
    ) -> u64 {
        let mut forgotten = 0;
        while forgotten < items_max
            && let Some(slot) = self.shelves.letters.over(topic, retention, self.now)
        {
            self.commit(turn.journal, slot, Effect::Dropped);
            forgotten += 1;
        }
        forgotten
    }

    /// When time brings something next: what a timer should wait for. A call in between may bring something earlier.
    pub fn next_due(&mut self, budget: Budget) -> Option<Timestamp> {
        let timer = self.timers.next();
        let shelves = retentions(&budget).into_iter().filter_map(|(name, keep)| {
            let kept = self.shelves.get(name);
            let bound = kept.bound.first().map(|((until, _), _)| until);
            let free = kept.free.first().map(|((since, _), _)| since.after(keep.unwrap_or_default()));
            keep.and(bound.into_iter().chain(free).min())
        });
        let shelves = shelves.min();
        let letters = budget.dead_letters.and_then(|retention| {
            let bound = self.shelves.get(Name::DeadLetter).bound.first().map(|((until, _), _)| until);
            let own = letters::own(&self.lanes, &retention);
            bound.into_iter().chain(self.shelves.letters.next_due(retention.default, &own, self.now)).min()
        });
        timer.into_iter().chain(shelves).chain(letters).min().filter(|at| *at != Timestamp::NEVER)
    }
}

/// What the messages on each shelf are kept for beyond what was promised; dead letters apart, which go by topic.
fn retentions(budget: &Budget) -> [(Name, Option<Duration>); 3] {
    let done = (Name::Done, Some(Duration::ZERO));
    [done, (Name::Dead, budget.dead_keep), (Name::Seen, budget.seen_keep)]
}
