//! The task that makes the calls of groups.

use std::iter;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use oncebox_core::Error;

use super::aside::Waiting;
use super::gate::{Gate, wake};
use super::kinds::{Kind, Mark};
use super::queue::{Group, Id};

/// While this lives, its gate forms no group.
pub(super) struct Gathering<K: Kind>(Arc<Gate<K>>);

impl<K: Kind> Gathering<K> {
    fn begin(gate: &Arc<Gate<K>>) -> Self {
        gate.lock().begin_gathering();
        Self::begun(gate)
    }

    /// For one that the queue knows of.
    pub(super) fn begun(gate: &Arc<Gate<K>>) -> Self {
        Self(gate.clone())
    }
}

impl<K: Kind> Drop for Gathering<K> {
    fn drop(&mut self) {
        self.0.lock().end_gathering();
    }
}

/// A task that makes the calls of groups, one group after another while there are any.
pub(super) struct Runner<K: Kind> {
    gate: Arc<Gate<K>>,
    calls: Vec<K::Owned>,
    /// Those of the group that have no answer yet.
    unanswered: std::vec::IntoIter<Id>,
    /// Between two groups.
    gathering: Option<Gathering<K>>,
    has_place: bool,
}

impl<K: Kind> Runner<K> {
    /// Has the place of this group, and serves it first.
    pub(super) fn new(gate: Arc<Gate<K>>, group: Group<K::Owned>) -> Self {
        let (unanswered, calls) = unzipped(group);
        Self { gate, calls, unanswered, gathering: None, has_place: true }
    }

    /// Has a place, and waits for others to come first.
    pub(super) fn gathering(gathering: Gathering<K>) -> Self {
        let mut runner = Self::new(gathering.0.clone(), Group::default());
        runner.gathering = Some(gathering);
        runner
    }

    pub(super) async fn run(mut self) {
        while self.has_place {
            let gate = self.gate.clone();
            if self.gathering.is_none() {
                self.serve().await;
                self.gathering = Some(Gathering::begin(&gate));
            }
            let items = gate.lock().ready_items();
            gate.crowd.gather(items).await;
            self.gathering = None;
            let mut queue = gate.lock();
            queue.end_group();
            match queue.form() {
                Some(group) => (self.unanswered, self.calls) = unzipped(group),
                None => self.has_place = false,
            }
            gate.go_on(queue);
        }
    }

    /// Makes the calls of a group as one. If that fails and nothing has happened, as two, and so on.
    async fn serve(&mut self) {
        let calls = mem::take(&mut self.calls);
        let mut group = K::Owned::default();
        let mut ends = Vec::with_capacity(calls.len());
        for call in calls {
            K::append(&mut group, call);
            ends.push(K::end(&group));
        }
        let gate = self.gate.clone();
        let (items, claims) = start(&ends, ends.len());
        let _going = gate.crowd.go(items + claims);
        let mut parts: Vec<_> = iter::once(0..ends.len()).collect();
        while let Some(part) = parts.pop() {
            let (from, to) = (start(&ends, part.start), start(&ends, part.end));
            match K::make(&*self.gate.inner, K::between(&group, from, to)).await {
                Ok(answer) => self.answer(K::deal(answer, from, &ends[part]).into_iter().map(Ok)),
                Err(error) if part.len() > 1 && can_be_split(&error) => parts.extend(halves(part)),
                Err(error) if error.is_held_up() => self.step_aside(K::own(K::between(&group, from, to))),
                Err(error) => self.answer(part.map(|_| Err(error.clone()))),
            }
        }
    }

    /// Leaves the next call of the group to a task of its own: it waits for something that is none of the others'.
    fn step_aside(&mut self, call: K::Owned) {
        let Some(id) = self.unanswered.next() else { return };
        tokio::spawn(Waiting::new(self.gate.clone(), id).make(call));
    }

    /// Answers the next calls of the group.
    fn answer(&mut self, answers: impl Iterator<Item = Result<K::Answer, Error>>) {
        let mut queue = self.gate.lock();
        let answered = answers.zip(self.unanswered.by_ref());
        let told: Vec<_> = answered.filter_map(|(answer, id)| queue.answer(id, answer)).collect();
        drop(queue);
        self.gate.crowd.left(told.len());
        wake(told);
    }
}

impl<K: Kind> Drop for Runner<K> {
    /// The store panicked, or the runtime shuts down: what is under way has an unknown outcome, and those who wait, if
    /// they live, find somebody else.
    fn drop(&mut self) {
        if !self.has_place {
            return;
        }
        self.gathering = None;
        let error = Error::new(oncebox_core::Kind::Unavailable, "the call was given up: repeat it");
        let mut queue = self.gate.lock();
        let given_up = self.unanswered.by_ref();
        let mut told: Vec<_> = given_up.filter_map(|id| queue.answer(id, Err(error.clone()))).collect();
        queue.end_group();
        told.extend(queue.wakers());
        drop(queue);
        wake(told);
    }
}

fn unzipped<C>(group: Group<C>) -> (std::vec::IntoIter<Id>, Vec<C>) {
    let (ids, calls): (Vec<_>, Vec<_>) = group.into_iter().unzip();
    (ids.into_iter(), calls)
}

/// Where the call with this index starts.
fn start(ends: &[Mark], call: usize) -> Mark {
    call.checked_sub(1).map_or((0, 0), |before| ends[before])
}

/// The two halves, the first one last: it is taken first.
fn halves(part: Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len() / 2;
    [middle..part.end, part.start..middle]
}

/// Whether nothing has happened, and part of the calls may fare better. (A closed store is closed for all.)
fn can_be_split(error: &Error) -> bool {
    matches!(error.kind(), oncebox_core::Kind::Invalid | oncebox_core::Kind::Unsupported)
        || error.is_held_up()
}
