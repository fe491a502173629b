//! Which lanes may have something, and from which number on: what this process has seen, so that a claim need not search.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Namespace, Topics};

use super::{From, Interest, Lane, Position, Span, Start};

/// Interests that are remembered, and lanes in all of them together, at most: then the one that was used longest ago is forgotten.
const INTERESTS_MAX: usize = 4_096;
const QUEUED_MAX: usize = 65_536;
/// Lanes that were noted since a claim last asked for their topic, at most in each namespace.
const NOTED_MAX: usize = 4_096;
/// Lanes whose positions are remembered, at most.
const POSITIONS_MAX: usize = 8_192;

type Key = (Namespace, Topics);

/// A cache. All of it may be missing or wrong at any time.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<Known>);

#[derive(Default)]
struct Known {
    interests: HashMap<Key, Used>,
    queued: usize,
    uses: u64,
    noted: HashMap<Namespace, BTreeSet<Lane>>,
    positions: HashMap<(Namespace, Lane), Position>,
    /// The position of a lane that is not remembered has this turn.
    unknown_turn: u64,
    turns: u64,
}

#[derive(Default)]
struct Used {
    interest: Interest,
    at: u64,
}

/// What a claim is to do first.
pub(crate) enum Plan {
    /// Scan for lanes, below this one.
    Scan(Option<Lane>),
    Serve,
}

impl Known {
    /// The interest of a claim, used now.
    fn interest(&mut self, key: &Key) -> &mut Interest {
        self.uses += 1;
        let uses = self.uses;
        if !self.interests.contains_key(key) {
            if self.interests.len() >= INTERESTS_MAX || self.queued >= QUEUED_MAX {
                self.forget_oldest();
            }
            let seed = usize::try_from(uses).unwrap_or_default();
            self.interests.insert(key.clone(), Used { interest: Interest::new(seed), at: uses });
        }
        let known = self.interests.entry(key.clone()).or_default();
        known.at = uses;
        &mut known.interest
    }

    fn forget_oldest(&mut self) {
        let oldest = self.interests.iter().min_by_key(|(_, used)| used.at).map(|(key, _)| key.clone());
        if let Some(used) = oldest.and_then(|key| self.interests.remove(&key)) {
            self.queued = self.queued.saturating_sub(used.interest.len());
        }
    }

    /// Changes an interest, and counts what it remembers.
    fn change<T>(&mut self, key: &Key, change: impl FnOnce(&mut Interest) -> T) -> T {
        let interest = self.interest(key);
        let before = interest.len();
        let answer = change(interest);
        let after = interest.len();
        self.queued = (self.queued + after).saturating_sub(before);
        answer
    }

    /// The lanes of these topics that were noted; from then on they are the interest's.
    fn take_noted(&mut self, (namespace, topics): &Key) -> Vec<Lane> {
        let Some(noted) = self.noted.get_mut(namespace) else { return Vec::new() };
        match topics.named() {
            None => std::mem::take(noted).into_iter().collect(),
            Some(names) => {
                let lanes: Vec<Lane> = names.iter().flat_map(|name| of_topic(noted, name)).collect();
                for lane in &lanes {
                    noted.remove(lane);
                }
                lanes
            }
        }
    }

    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    fn keep(&mut self, key: (Namespace, Lane), position: Position) {
        if self.positions.len() >= POSITIONS_MAX && !self.positions.contains_key(&key) {
            // Any one: it is read from its beginning next time.
            if let Some(other) = self.positions.keys().next().cloned() {
                self.positions.remove(&other);
            }
        }
        self.positions.insert(key, position);
    }
}

fn of_topic(noted: &BTreeSet<Lane>, name: &oncebox_core::Topic) -> Vec<Lane> {
    let (first, last) = ((name.clone(), i32::MIN), (name.clone(), i32::MAX));
    noted.range(first..=last).cloned().collect()
}

impl Lanes {
    fn lock(&self) -> MutexGuard<'_, Known> {
        // A cache is whole whatever happened while it was locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a lane may have something that is new, or came back to its place.
    pub(crate) fn note(&self, namespace: Namespace, lane: Lane) {
        let mut known = self.lock();
        let noted = known.noted.entry(namespace).or_default();
        if noted.len() >= NOTED_MAX && !noted.contains(&lane) {
            noted.pop_first();
        }
        noted.insert(lane);
    }

    /// What a claim of these topics does first. Counts it.
    pub(crate) fn plan(&self, namespace: Namespace, topics: &Topics, now: Duration) -> Plan {
        let mut known = self.lock();
        let key = (namespace, topics.clone());
        let noted = known.take_noted(&key);
        known.change(&key, |interest| {
            for lane in noted {
                interest.offer(&lane);
            }
            if interest.scans_before_claim(now) {
                Plan::Scan(interest.cursor().below().cloned())
            } else {
                Plan::Serve
            }
        })
    }

    /// Takes up what a scan found.
    pub(crate) fn scanned(
        &self,
        namespace: Namespace,
        topics: &Topics,
        piece: &[Lane],
        began: Duration,
        ended: Duration,
    ) {
        let key = (namespace, topics.clone());
        self.lock().change(&key, |interest| interest.scanned(piece, began, ended));
    }

    /// Notes for these topics that lanes have something.
    pub(crate) fn offer(&self, namespace: Namespace, topics: &Topics, lanes: &[Lane]) {
        self.lock().change(&(namespace, topics.clone()), |interest| {
            for lane in lanes {
                interest.offer(lane);
            }
        });
    }

    /// The lanes whose turn it is; see [`Interest::take_turn`].
    pub(crate) fn take_turn(
        &self,
        namespace: Namespace,
        topics: &Topics,
        max: usize,
        turns: usize,
        except: &HashSet<Lane>,
    ) -> Vec<Lane> {
        let key = (namespace, topics.clone());
        self.lock().change(&key, |interest| interest.take_turn(max, turns, except))
    }

    /// Notes that lanes have nothing for now.
    pub(crate) fn drained<'a>(
        &self,
        namespace: Namespace,
        topics: &Topics,
        lanes: impl IntoIterator<Item = &'a Lane>,
    ) {
        self.lock().change(&(namespace, topics.clone()), |interest| {
            for lane in lanes {
                interest.drained(lane);
            }
        });
    }

    /// Where reads of lanes begin now, on the monotonic clock.
    pub(crate) fn starts(
        &self,
        namespace: Namespace,
        lanes: &[Lane],
        from: From,
        now: Duration,
    ) -> Vec<Start> {
        let known = self.lock();
        let unknown = Position::anew(known.unknown_turn);
        let position =
            |lane: &Lane| known.positions.get(&(namespace, lane.clone())).copied().unwrap_or(unknown);
        lanes.iter().map(|lane| position(lane).start(from, now)).collect()
    }

    /// Notes what a read of a lane found that ends now.
    pub(crate) fn read(&self, namespace: Namespace, lane: &Lane, start: Start, found: Span, now: Duration) {
        let mut known = self.lock();
        let key = (namespace, lane.clone());
        let unknown = Position::anew(known.unknown_turn);
        let mut position = known.positions.get(&key).copied().unwrap_or(unknown);
        // If something came back meanwhile, it may have been overlooked.
        if position.turn() != start.turn {
            return;
        }
        let next_turn = known.turns + 1;
        if position.read(start, found, now, next_turn) {
            known.turns = next_turn;
        }
        known.keep(key, position);
    }

    /// Notes that something may have come back to its place in a lane.
    pub(crate) fn lower(&self, namespace: Namespace, lane: Lane) {
        let mut known = self.lock();
        let turn = known.next_turn();
        known.keep((namespace, lane), Position::anew(turn));
    }

    /// Notes that something may have come back to its place in any lane.
    pub(crate) fn lower_all(&self) {
        let mut known = self.lock();
        known.positions.clear();
        known.unknown_turn = known.next_turn();
    }
}

#[cfg(test)]
mod tests;
