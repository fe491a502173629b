//! Shelves for what is no longer worked on, and the upkeep that clears them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use super::message::{Message, Place};
use super::sorted::Sorted;
use super::{Effect, Machine, Turn};
use crate::id::Number;
use crate::key::Namespace;
use crate::limits::REPEAT_WINDOW;
use crate::message::State;
use crate::payload::PayloadHandle;
use crate::port::{Budget, Upkept};
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
    /// Dead, and of the mailbox.
    DeadLetter,
}

#[derive(Default)]
pub(super) struct Shelves {
    shelves: [Shelf; 4],
    /// Dead, by number: operators list it often, and it is rare among millions.
    pub(super) dead_numbers: BTreeMap<Number, Slot>,
}

impl Shelves {
    fn get(&mut self, name: Name) -> &mut Shelf {
        &mut self.shelves[name as usize]
    }

    /// When the next Done message may be forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.shelves[Name::Done as usize].bound.first().map(|((at, _), _)| at)
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
        let kept = self.shelves.get(name);
        match place {
            Place::Free => kept.free.remove((since(message), message.number)),
            _ => kept.bound.remove((bound_until(message), message.number)),
        }
    }

    /// Does a bounded piece of what time has made necessary.
    pub fn upkeep(&mut self, turn: &mut Turn<'_, P>, budget: Budget) -> Upkept {
        let mut forgotten = 0;
        if self.catch_up(turn, budget.items_max) {
            for (name, keep) in retentions(budget) {
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
        }
        let ended = std::mem::take(&mut self.ended);
        let (lapsed, expired, next_due) = (ended.lapsed, ended.expired, self.next_due(budget));
        Upkept { lapsed, expired, died: ended.deaths(), forgotten, next_due }
    }

    /// Moves messages that need no longer be kept to where the retention finds them.
    fn unbind(&mut self, name: Name, items_max: u32) {
        let kept = self.shelves.get(name);
        for _ in 0..items_max {
            let first = kept.bound.first().filter(|((until, _), _)| *until <= self.now);
            let Some((key, slot)) = first else { return };
            kept.bound.remove(key);
            let message = &mut self.messages[slot];
            message.place = Place::Free;
            kept.free.insert((since(message), message.number), slot);
        }
    }

    /// A message that the retention lets go.
    fn over(&mut self, name: Name, keep: Option<Duration>) -> Option<Slot> {
        let kept = self.shelves.get(name);
        let first = if name == Name::Done { kept.bound.first() } else { kept.free.first() };
        let ((since, _), slot) = first?;
        (since.after(keep?) <= self.now).then_some(slot)
    }

    /// When time brings something next: what a timer should wait for. A call in between may bring something earlier.
    pub fn next_due(&mut self, budget: Budget) -> Option<Timestamp> {
        let timer = self.timers.next();
        let shelves = retentions(budget).into_iter().filter_map(|(name, keep)| {
            let kept = self.shelves.get(name);
            let bound = kept.bound.first().map(|((until, _), _)| until);
            let free = kept.free.first().map(|((since, _), _)| since.after(keep.unwrap_or_default()));
            keep.and(bound.into_iter().chain(free).min())
        });
        timer.into_iter().chain(shelves).min().filter(|at| *at != Timestamp::NEVER)
    }
}

/// What the messages on each shelf are kept for beyond what was promised.
fn retentions(budget: Budget) -> [(Name, Option<Duration>); 4] {
    let Budget { seen_keep, dead_keep, dlq_keep, .. } = budget;
    let done = (Name::Done, Some(Duration::ZERO));
    [done, (Name::Dead, dead_keep), (Name::DeadLetter, dlq_keep), (Name::Seen, seen_keep)]
}
