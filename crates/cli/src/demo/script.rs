//! The script of a demo: what arrives when, and what befalls it. The same seed makes the same script.

use std::collections::HashMap;
use std::time::Duration;

use super::letters::Letter;
use super::random::Random;

/// Fewer could not show everything.
pub(super) const ARRIVALS_MIN: u64 = 16;
/// One page of a listing shows them all.
pub(super) const ARRIVALS_MAX: u64 = 1_000;
/// Who sends.
pub(super) const SOURCES: [&str; 3] = ["stripe", "github", "shopify"];

/// The whole run lets messages arrive for about so long, if they are not too many.
const ARRIVING: Duration = Duration::from_millis(3_500);
const GAP_MAX: Duration = Duration::from_millis(130);
/// Messages that no handler can handle before the bug is fixed.
const POISONS: usize = 3;

/// What befalls a message when it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handled.
    Fine,
    /// Its first so many deliveries fail.
    Flaky(u32),
    /// Every delivery fails, until the bug is fixed.
    Poison,
    /// The worker that gets it first crashes in the middle of it.
    Crash,
}

/// One message of the demo.
pub(super) struct Part {
    pub(super) source: &'static str,
    pub(super) id: String,
    pub(super) event: &'static str,
    pub(super) about: String,
    pub(super) cents: u64,
    pub(super) payload: Vec<u8>,
    pub(super) fate: Fate,
    /// How long its handler takes.
    pub(super) takes: Duration,
}

/// One webhook call.
pub(super) struct Arrival {
    /// Since the beginning.
    pub(super) at: Duration,
    /// Which of the parts it brings.
    pub(super) part: usize,
    /// The part's payload, or another one under the same key.
    pub(super) payload: Vec<u8>,
}

pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    pub(super) arrivals: Vec<Arrival>,
    /// So many messages a worker takes at once.
    pub(super) hands: u32,
    places: HashMap<String, usize>,
}

impl Script {
    /// A script of so many calls: a fifth of them duplicates, and one that contradicts what came before.
    pub(super) fn write(arrivals: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let duplicates = arrivals / 5;
        let mut letters: Vec<_> =
            (0..arrivals - duplicates - 1).map(|serial| Letter::make_up(&mut random, serial)).collect();
        let fates = fates(&mut random, letters.len());
        for (letter, _) in letters.iter_mut().zip(&fates).filter(|(_, fate)| **fate == Fate::Poison) {
            letter.modernize();
        }
        let mut calls: Vec<_> = letters.iter().map(Letter::payload).enumerate().collect();
        for _ in 0..duplicates {
            let original = random.place(calls.len());
            let call = calls[original].clone();
            // Soon after, as impatient senders do, or much later, as broken ones do.
            let distance = if random.percent(50) { 1 } else { random.between(2, 12) };
            let place = original.saturating_add(usize::try_from(distance).unwrap_or(1)).min(calls.len());
            calls.insert(place, call);
        }
        let amended = fates.iter().position(|fate| *fate == Fate::Fine).unwrap_or_default();
        let first = calls.iter().position(|(part, _)| *part == amended).unwrap_or_default();
        calls.insert((first + 3).min(calls.len()), (amended, letters[amended].amended()));
        let hands = (arrivals / 25).max(2);
        // A round of a worker takes about as long, however many it has in its hands.
        let takes = |random: &mut Random| Duration::from_millis(random.between(120, 320) / hands as u64);
        let parts = letters.into_iter().zip(fates).map(|(letter, fate)| Part {
            payload: letter.payload(),
            source: letter.source,
            id: letter.id,
            event: letter.event,
            about: letter.about,
            cents: letter.cents,
            fate,
            takes: takes(&mut random),
        });
        let parts: Vec<_> = parts.collect();
        let places = parts.iter().enumerate().map(|(place, part)| (part.id.clone(), place)).collect();
        let hands = u32::try_from(hands).unwrap_or(2);
        Self { parts, arrivals: schedule(&mut random, calls), hands, places }
    }

    /// The place of the part with this id.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }
}

/// A few that have a special fate, the rest fine or flaky. What takes long comes early.
fn fates(random: &mut Random, count: usize) -> Vec<Fate> {
    let ordinary = |random: &mut Random| match random.between(0, 9) {
        0 => Fate::Flaky(1),
        1 => Fate::Flaky(2),
        _ => Fate::Fine,
    };
    let mut fates = vec![Fate::Fine, Fate::Flaky(1)];
    while fates.len() + POISONS + 1 < count {
        fates.push(ordinary(random));
    }
    random.shuffle(&mut fates);
    for poison in 0..POISONS {
        fates.insert(1 + poison * count / 8, Fate::Poison);
    }
    fates.insert(count / 4, Fate::Crash);
    fates
}

/// Spreads the calls over time, unevenly.
fn schedule(random: &mut Random, calls: Vec<(usize, Vec<u8>)>) -> Vec<Arrival> {
    let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let gap = (ARRIVING / count.max(1)).min(GAP_MAX);
    let mut at = Duration::ZERO;
    let arrival = |(part, payload)| {
        at += gap.mul_f64(f64::from(u32::try_from(random.between(20, 180)).unwrap_or(100)) / 100.0);
        Arrival { at, part, payload }
    };
    calls.into_iter().map(arrival).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ARRIVALS_MAX, ARRIVALS_MIN, Fate, POISONS, SOURCES, Script};

    #[test]
    fn every_script_has_every_fate_and_as_many_calls_as_asked_for() {
        for seed in 0..50 {
            for count in [ARRIVALS_MIN, 40, ARRIVALS_MAX] {
                let count = usize::try_from(count).unwrap();
                let script = Script::write(count, seed);
                assert_eq!(script.arrivals.len(), count);
                assert_eq!(script.parts.len(), count - count / 5 - 1);
                let fates = |fate| script.parts.iter().filter(|part| part.fate == fate).count();
                assert!(fates(Fate::Fine) >= 1 && fates(Fate::Flaky(1)) >= 1);
                assert_eq!((fates(Fate::Poison), fates(Fate::Crash)), (POISONS, 1));
                let ids: HashSet<_> = script.parts.iter().map(|part| part.id.as_str()).collect();
                assert_eq!(ids.len(), script.parts.len());
                assert!(script.parts.iter().all(|part| SOURCES.contains(&part.source)));
                assert!(script.arrivals.is_sorted_by_key(|arrival| arrival.at));
            }
        }
    }

    #[test]
    fn one_call_contradicts_what_came_before_it() {
        for seed in 0..50 {
            let script = Script::write(40, seed);
            let contradicts = |place: &usize| {
                script.arrivals[*place].payload != script.parts[script.arrivals[*place].part].payload
            };
            let places: Vec<_> = (0..script.arrivals.len()).filter(contradicts).collect();
            let [place] = places[..] else { panic!("{places:?}") };
            let part = script.arrivals[place].part;
            assert!(script.arrivals[..place].iter().any(|arrival| arrival.part == part));
        }
    }

    #[test]
    fn the_same_seed_writes_the_same_script() {
        let calls = |seed| -> Vec<_> {
            let script = Script::write(40, seed);
            script.arrivals.into_iter().map(|arrival| (arrival.at, arrival.part)).collect()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }
}
