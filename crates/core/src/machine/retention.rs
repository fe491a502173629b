//! Shelves for what is no longer worked on, and the upkeep that clears them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use super::message::{Message, Place};
use super::sorted::Sorted;
use super::{Effect, Machine, Turn};
use crate::id::Number;
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

#[derive(Default)]
pub(super) struct Shelves {
    done: Shelf,
    /// Seen and not leased.
    seen: Shelf,
    dead: Shelf,
    /// Dead, by number: operators list it often, and it is rare among millions.
    pub(super) dead_numbers: BTreeMap<Number, Slot>,
}

impl Shelves {
    fn of(&mut self, state: State) -> Option<&mut Shelf> {
        match state {
            State::Done => Some(&mut self.done),
            State::Dead => Some(&mut self.dead),
            State::Seen => Some(&mut self.seen),
            State::Processing => None,
        }
    }

    /// When the next Done message may be forgotten.
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.done.bound.first().map(|((at, _), _)| at)
    }
}

/// Until when a message must be kept, whatever the retention: its receipt promises to know duplicates, and repeats of its
/// last settlement want their answer.
fn bound_until<P>(message: &Message<P>) -> Timestamp {
    let promised = if message.keyed { message.dedup_until() } else { Timestamp::EPOCH };
    match message.state {
        State::Done | State::Dead => promised.max(message.finished_at.after(REPEAT_WINDOW)),
        State::Seen | State::Processing => promised,
    }
}

/// From when the retention of its state counts.
fn since<P>(message: &Message<P>) -> Timestamp {
    if message.state == State::Seen { message.accepted_at } else { message.finished_at }
}

impl<P: PayloadHandle> Machine<P> {
    pub(super) fn shelve(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        let class = match message.state {
            State::Done => Class::Done,
            State::Dead => Class::Dead,
            State::Seen => Class::Seen,
            State::Processing => unreachable!("what is worked on is not shelved"),
        };
        if message.state == State::Dead {
            self.shelves.dead_numbers.insert(message.number, slot);
        }
        if let Some(kept) = self.shelves.of(message.state) {
            kept.bound.insert((bound_until(message), message.number), slot);
        }
        self.classify(slot, class);
    }

    pub(super) fn unshelve(&mut self, slot: Slot, place: Place) {
        let message = &self.messages[slot];
        if message.state == State::Dead {
            self.shelves.dead_numbers.remove(&message.number);
        }
        let Some(kept) = self.shelves.of(message.state) else { return };
        match place {
            Place::Free => kept.free.remove((since(message), message.number)),
            _ => kept.bound.remove((bound_until(message), message.number)),
        }
    }

    /// Does a bounded piece of what time has made necessary.
    pub fn upkeep(&mut self, turn: &mut Turn<'_, P>, budget: Budget) -> Upkept {
        let mut forgotten = 0;
        if self.catch_up(turn, budget.items_max) {
            for (state, keep) in retentions(budget) {
                // What is Done goes as soon as it need not be kept; the others wait for their retention.
                if state != State::Done {
                    self.unbind(state, budget.items_max);
                }
                while forgotten < u64::from(budget.items_max)
                    && let Some(slot) = self.over(state, keep)
                {
                    self.commit(turn.journal, slot, Effect::Dropped);
                    forgotten += 1;
                }
            }
        }
        let ended = std::mem::take(&mut self.ended);
        Upkept { lapsed: ended.lapsed, expired: ended.expired, forgotten, next_due: self.next_due(budget) }
    }

    /// Moves messages that need no longer be kept to where the retention finds them.
    fn unbind(&mut self, state: State, items_max: u32) {
        let Some(kept) = self.shelves.of(state) else { return };
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
    fn over(&mut self, state: State, keep: Option<Duration>) -> Option<Slot> {
        let kept = self.shelves.of(state)?;
        let first = if state == State::Done { kept.bound.first() } else { kept.free.first() };
        let ((since, _), slot) = first?;
        (since.after(keep?) <= self.now).then_some(slot)
    }

    /// When time brings something next: what a timer should wait for. A call in between may bring something earlier.
    pub fn next_due(&mut self, budget: Budget) -> Option<Timestamp> {
        let timer = self.timers.next();
        let shelves = retentions(budget).into_iter().filter_map(|(state, keep)| {
            let kept = self.shelves.of(state)?;
            let bound = kept.bound.first().map(|((until, _), _)| until);
            let free = kept.free.first().map(|((since, _), _)| since.after(keep.unwrap_or_default()));
            keep.and(bound.into_iter().chain(free).min())
        });
        timer.into_iter().chain(shelves).min().filter(|at| *at != Timestamp::NEVER)
    }
}

/// What each state's messages are kept for beyond what was promised.
fn retentions(budget: Budget) -> [(State, Option<Duration>); 3] {
    let Budget { seen_keep, dead_keep, .. } = budget;
    [(State::Done, Some(Duration::ZERO)), (State::Dead, dead_keep), (State::Seen, seen_keep)]
}
