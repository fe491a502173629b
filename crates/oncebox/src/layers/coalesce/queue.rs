//! Who waits, for what, and who goes together: decisions only, made under the gate's lock.
//!
//! A call holds its names from when it lines up, or behind those that lined up for them before it. It is ready when it is the
//! first for each of its names, and the first for them until it is answered. So calls about the same thing neither meet nor
//! pass each other, and as all names of a call are taken at once, nobody waits in a circle.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::mem;
use std::task::Waker;

use oncebox_core::limits::CLAIM_MESSAGES_MAX;
use oncebox_core::{Error, Kind};

use super::{GROUP_BYTES_MAX, GROUP_ITEMS_MAX, Options};

/// A call that waits, by the order of arrival.
pub(super) type Id = u64;

/// The hash of what a call is about. Two things with one hash wait for each other in vain, which does no harm.
pub(super) type Name = u64;

/// How much is in a call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Weight {
    pub(super) items: usize,
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Weight {
    fn with(self, other: Self) -> Self {
        Self {
            items: self.items + other.items,
            messages: self.messages + other.messages,
            bytes: self.bytes + other.bytes,
        }
    }

    fn fits(self) -> bool {
        self.items <= GROUP_ITEMS_MAX
            && self.messages <= u64::from(CLAIM_MESSAGES_MAX)
            && self.bytes <= GROUP_BYTES_MAX
    }
}

/// The calls of one kind that wait or are under way.
pub(super) struct Queue<C, A> {
    options: Options,
    seats: BTreeMap<Id, Seat<C, A>>,
    /// What is held, and who waits for it.
    held: HashMap<Name, BTreeSet<Id>>,
    /// Those that nothing stands in the way of but the number of groups.
    ready: BTreeSet<Id>,
    waiting: usize,
    under_way: usize,
    /// Those with a place who wait for others to come. Meanwhile no place is free.
    gathering: usize,
    next: Id,
    closed: bool,
}

struct Seat<C, A> {
    stage: Stage<C, A>,
    names: Vec<Name>,
    /// How many of its names others hold.
    blocked: usize,
    waker: Option<Waker>,
}

enum Stage<C, A> {
    Waiting(C, Weight),
    UnderWay,
    /// Under way, and nobody wants to know.
    Abandoned,
    Answered(Result<A, Error>),
}

/// What a call finds.
pub(super) enum Found {
    /// A free place, which is its own now; it came as this one.
    Place(Id),
    Line,
    /// Nobody lines up any more.
    Closed,
}

/// Calls that go together, in order of arrival.
pub(super) type Group<C> = Vec<(Id, C)>;

impl<C, A> Queue<C, A> {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            seats: BTreeMap::new(),
            held: HashMap::new(),
            ready: BTreeSet::new(),
            waiting: 0,
            under_way: 0,
            gathering: 0,
            next: 0,
            closed: false,
        }
    }

    /// Takes a place for a call by itself, if one is free and nobody comes first. Names are different from each other.
    pub(super) fn enter(&mut self, names: &[Name]) -> Result<Found, Error> {
        if self.closed {
            return Ok(Found::Closed);
        }
        let first = self.ready.is_empty() && names.iter().all(|name| !self.held.contains_key(name));
        if !first || !self.has_place() {
            return self.check_room().map(|()| Found::Line);
        }
        self.held.extend(names.iter().map(|name| (*name, BTreeSet::new())));
        self.under_way += 1;
        Ok(Found::Place(self.next_id()))
    }

    /// Lines up. Names are different from each other.
    pub(super) fn line_up(&mut self, call: C, weight: Weight, names: Vec<Name>) -> Result<Id, Error> {
        self.check_room()?;
        let id = self.next_id();
        let mut blocked = 0;
        for name in &names {
            match self.held.entry(*name) {
                Entry::Vacant(free) => drop(free.insert(BTreeSet::new())),
                Entry::Occupied(mut behind) => {
                    behind.get_mut().insert(id);
                    blocked += 1;
                }
            }
        }
        self.sit_down(id, call, weight, names, blocked);
        Ok(id)
    }

    /// Lines up one that has a place and holds its names, as it came. It is gathering from then on.
    pub(super) fn join(&mut self, id: Id, call: C, weight: Weight, names: Vec<Name>) {
        self.gathering += 1;
        self.sit_down(id, call, weight, names, 0);
    }

    fn next_id(&mut self) -> Id {
        let id = self.next;
        self.next += 1;
        id
    }

    fn sit_down(&mut self, id: Id, call: C, weight: Weight, names: Vec<Name>, blocked: usize) {
        if blocked == 0 {
            self.ready.insert(id);
        }
        self.waiting += 1;
        self.seats.insert(id, Seat { stage: Stage::Waiting(call, weight), names, blocked, waker: None });
    }

    fn check_room(&self) -> Result<(), Error> {
        if self.closed {
            return Err(closed());
        }
        if self.waiting >= self.options.waiting_calls_max {
            let text = "too many calls wait for the store and nothing was taken in: slow down, and repeat the call later";
            return Err(Error::new(Kind::Saturated, text));
        }
        Ok(())
    }

    fn has_place(&self) -> bool {
        self.gathering == 0 && self.under_way < self.options.groups_max.get()
    }

    /// Items of all that nothing stands in the way of but the number of groups.
    pub(super) fn ready_items(&self) -> usize {
        let items = |id| match self.seats.get(id)?.stage {
            Stage::Waiting(_, weight) => Some(weight.items),
            _ => None,
        };
        self.ready.iter().filter_map(items).sum()
    }

    /// Whether [`Self::form`] has something to form.
    pub(super) fn can_form(&self) -> bool {
        self.has_place() && !self.ready.is_empty()
    }

    /// Forms the next group, which is under way then: those who are ready, up to the first that does not fit.
    pub(super) fn form(&mut self) -> Option<Group<C>> {
        if !self.can_form() {
            return None;
        }
        let (mut group, mut total) = (Vec::new(), Weight::default());
        while let Some(id) = self.ready.first().copied() {
            let Some(seat) = self.seats.get_mut(&id) else { break };
            let Stage::Waiting(_, weight) = &seat.stage else { break };
            total = total.with(*weight);
            if !group.is_empty() && !total.fits() {
                break;
            }
            if let Stage::Waiting(call, _) = mem::replace(&mut seat.stage, Stage::UnderWay) {
                group.push((id, call));
            }
            self.ready.remove(&id);
        }
        self.waiting -= group.len();
        self.under_way += 1;
        Some(group)
    }

    /// Answers a call that is under way.
    pub(super) fn answer(&mut self, id: Id, answer: Result<A, Error>) -> Option<Waker> {
        let seat = self.seats.get_mut(&id)?;
        let names = mem::take(&mut seat.names);
        let waker = seat.waker.take();
        if matches!(seat.stage, Stage::Abandoned) {
            self.seats.remove(&id);
        } else {
            seat.stage = Stage::Answered(answer);
        }
        self.release(&names);
        waker
    }

    pub(super) fn begin_gathering(&mut self) {
        self.gathering += 1;
    }

    pub(super) fn end_gathering(&mut self) {
        self.gathering -= 1;
    }

    /// Gives back the place of a group.
    pub(super) fn end_group(&mut self) {
        self.under_way -= 1;
    }

    /// Takes the answer, or leaves word how to be told.
    pub(super) fn ask(&mut self, id: Id, waker: &Waker) -> Option<Result<A, Error>> {
        let seat = self.seats.get_mut(&id)?;
        if !matches!(seat.stage, Stage::Answered(_)) {
            seat.waker = Some(waker.clone());
            return None;
        }
        match self.seats.remove(&id)?.stage {
            Stage::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// Forgets a caller that went away. Its call does not happen if it was not under way.
    pub(super) fn leave(&mut self, id: Id) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if matches!(seat.stage, Stage::UnderWay) {
            seat.stage = Stage::Abandoned;
            seat.waker = None;
        } else {
            self.step_out(id);
            self.seats.remove(&id);
        }
    }

    /// Lets nobody line up any more, and answers all who wait.
    pub(super) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        let waits = |(id, seat): (&Id, &Seat<C, A>)| matches!(seat.stage, Stage::Waiting(..)).then_some(*id);
        let waiting: Vec<_> = self.seats.iter().filter_map(waits).collect();
        let told = waiting.into_iter().filter_map(|id| {
            self.step_out(id);
            self.answer(id, Err(closed()))
        });
        told.collect()
    }

    /// Those who can be told to look whether they can form a group.
    pub(super) fn wakers(&mut self) -> Vec<Waker> {
        let waiting = self.seats.values_mut().filter(|seat| matches!(seat.stage, Stage::Waiting(..)));
        waiting.filter_map(|seat| seat.waker.take()).collect()
    }

    /// Takes a waiting call out of every line.
    fn step_out(&mut self, id: Id) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if !matches!(seat.stage, Stage::Waiting(..)) {
            return;
        }
        let names = mem::take(&mut seat.names);
        self.waiting -= 1;
        self.ready.remove(&id);
        for name in names {
            let was_behind = self.held.get_mut(&name).is_some_and(|behind| behind.remove(&id));
            if !was_behind {
                self.release(&[name]);
            }
        }
    }

    /// Lets the next in line have each of these.
    pub(super) fn release(&mut self, names: &[Name]) {
        for name in names {
            let Some(id) = self.held.get_mut(name).and_then(BTreeSet::pop_first) else {
                self.held.remove(name);
                continue;
            };
            let Some(seat) = self.seats.get_mut(&id) else { continue };
            seat.blocked -= 1;
            if seat.blocked == 0 {
                self.ready.insert(id);
            }
        }
    }
}

fn closed() -> Error {
    Error::new(Kind::Closed, "the store is closed: open it again")
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::{Found, Options, Queue, Weight};

    /// However callers leave, nothing of them is kept.
    #[test]
    fn nothing_is_left_behind() {
        let weight = Weight { items: 1, messages: 0, bytes: 0 };
        let mut queue = Queue::<(), ()>::new(Options::DEFAULT);
        for name in [1, 2] {
            assert!(matches!(queue.enter(&[name]), Ok(Found::Place(_))));
        }
        let [stays, leaves_late, answered, blocked, leaves_early] = [[3, 4], [5, 6], [7, 8], [3, 1], [9, 3]]
            .map(|names| queue.line_up((), weight, names.into()).unwrap());
        queue.release(&[2]);
        queue.end_group();
        assert_eq!(queue.form().map(|group| group.len()), Some(3));
        queue.leave(leaves_late);
        queue.leave(leaves_early);
        for id in [stays, leaves_late, answered] {
            queue.answer(id, Ok(()));
        }
        queue.end_group();
        assert!(queue.ask(stays, Waker::noop()).is_some());
        queue.leave(answered);
        assert!(!queue.can_form(), "one is left, and waits for 1");
        queue.release(&[1]);
        queue.end_group();
        queue.close();
        queue.leave(blocked);
        let Queue { seats, held, ready, waiting, under_way, .. } = &queue;
        let left = (seats.len(), held.len(), ready.len(), *waiting, *under_way);
        assert_eq!(left, (0, 0, 0, 0, 0));
    }
}
