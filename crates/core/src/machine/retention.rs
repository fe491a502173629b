//! Shelves for what is no longer worked on, and the upkeep that clears them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::arena::Slot;
use super::counts::Class;
use super::{Effect, Machine, Turn};
use crate::id::Number;
use crate::limits::REPEAT_WINDOW;
use crate::message::State;
use crate::port::{Budget, Upkept};
use crate::time::Timestamp;

#[derive(Default)]
pub(super) struct Shelves {
    /// Done, by the moment at which it may be forgotten.
    done: BTreeSet<(Timestamp, Slot)>,
    /// Seen and not leased, by when it came first.
    seen: BTreeSet<(Timestamp, Slot)>,
    /// Dead, by when it died.
    dead: BTreeSet<(Timestamp, Slot)>,
    /// Dead, by number: operators list it often, and it is rare among millions.
    pub(super) dead_numbers: BTreeMap<Number, Slot>,
}

impl Shelves {
    pub(super) fn next_forgotten(&self) -> Option<Timestamp> {
        self.done.first().map(|(at, _)| *at)
    }
}

impl<P: Clone> Machine<P> {
    /// When a Done message may be forgotten.
    fn forget_at(&self, slot: Slot) -> Timestamp {
        let message = &self.messages[slot];
        let repeats = message.finished_at.after(REPEAT_WINDOW);
        if message.keyed { repeats.max(message.dedup_until()) } else { repeats }
    }

    pub(super) fn shelve(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        match message.state {
            State::Done => {
                self.shelves.done.insert((self.forget_at(slot), slot));
                self.classify(slot, Class::Done);
            }
            State::Dead => {
                self.shelves.dead.insert((message.finished_at, slot));
                self.shelves.dead_numbers.insert(message.number, slot);
                self.classify(slot, Class::Dead);
            }
            State::Seen => {
                self.shelves.seen.insert((message.accepted_at, slot));
                self.classify(slot, Class::Seen);
            }
            State::Processing => unreachable!("what is worked on is not shelved"),
        }
    }

    pub(super) fn unshelve(&mut self, slot: Slot) {
        let message = &self.messages[slot];
        match message.state {
            State::Done => {
                self.shelves.done.remove(&(self.forget_at(slot), slot));
            }
            State::Dead => {
                self.shelves.dead.remove(&(message.finished_at, slot));
                self.shelves.dead_numbers.remove(&message.number);
            }
            State::Seen => {
                self.shelves.seen.remove(&(message.accepted_at, slot));
            }
            State::Processing => {}
        }
    }

    /// Does a bounded piece of what time has made necessary.
    pub fn upkeep(&mut self, turn: &mut Turn<'_, P>, budget: Budget) -> Upkept {
        let before = self.ended;
        self.advance(turn);
        let mut forgotten = 0;
        while forgotten < u64::from(budget.items_max) {
            let Some(slot) = self.next_to_forget(budget) else { break };
            self.commit(turn.journal, slot, Effect::Dropped);
            forgotten += 1;
        }
        Upkept { done: self.ended - before + forgotten, next_due: self.next_due(budget) }
    }

    fn next_to_forget(&self, budget: Budget) -> Option<Slot> {
        let over = |shelf: &BTreeSet<(Timestamp, Slot)>, keep: Option<Duration>| {
            let (since, slot) = shelf.first()?;
            (since.after(keep?) <= self.now).then_some(*slot)
        };
        over(&self.shelves.done, Some(Duration::ZERO))
            .or_else(|| over(&self.shelves.dead, budget.dead_keep))
            .or_else(|| over(&self.shelves.seen, budget.seen_keep))
    }

    /// When time brings something next: what a timer should wait for.
    pub fn next_due(&self, budget: Budget) -> Option<Timestamp> {
        let over =
            |shelf: &BTreeSet<(Timestamp, Slot)>, keep: Option<Duration>| Some(shelf.first()?.0.after(keep?));
        let moments = [
            self.timers.next(),
            self.shelves.next_forgotten(),
            over(&self.shelves.dead, budget.dead_keep),
            over(&self.shelves.seen, budget.seen_keep),
        ];
        moments.into_iter().flatten().min()
    }
}
