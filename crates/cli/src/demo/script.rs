//! The script of a demo: what arrives when, and what befalls it. The same seed makes the same script.

use std::collections::HashMap;
use std::time::Duration;

use oncebox::{Error, Message};

use super::letters::Letter;
use super::random::Random;

/// Fewer could not show everything.
pub(super) const ARRIVALS_MIN: u64 = 16;
/// One page of a listing shows them all.
pub(super) const ARRIVALS_MAX: u64 = 1_000;

/// The whole run lets messages arrive for about so long, if they are not too many.
const ARRIVING: Duration = Duration::from_millis(4_800);
const GAP_MAX: Duration = Duration::from_millis(130);
/// What is amended waits so long for its amendment.
const AMENDED_DUE: Duration = Duration::from_millis(1_500);

/// What befalls a message when it is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is handled.
    Fine,
    /// Its first so many deliveries fail.
    Flaky(u32),
    /// Its first delivery is asked to come again after a while of the handler's choice.
    Busy,
    /// Its handler gives it up.
    Refused,
    /// Every delivery fails.
    Stubborn,
    /// One delivery of it panics.
    Panics,
    /// It cannot be read.
    Torn,
    /// The worker of its first delivery crashes in the middle of it.
    Crash,
}

/// One message of the demo.
pub(super) struct Part {
    pub(super) source: &'static str,
    pub(super) id: String,
    pub(super) topic: &'static str,
    pub(super) about: String,
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
    pub(super) message: Message,
}

pub(super) struct Script {
    pub(super) parts: Vec<Part>,
    pub(super) arrivals: Vec<Arrival>,
    places: HashMap<String, usize>,
}

impl Script {
    /// A script of so many calls: a fifth of them duplicates, and one amendment.
    pub(super) fn write(arrivals: usize, seed: u64) -> Result<Self, Error> {
        let mut random = Random::new(seed);
        let duplicates = arrivals / 5;
        let mut letters: Vec<_> =
            (0..arrivals - duplicates - 1).map(|serial| Letter::make_up(&mut random, serial)).collect();
        let fates = fates(&mut random, letters.len());
        // Early enough to be seen, and with a fate that nothing else depends on.
        let amended = fates.iter().position(|fate| *fate == Fate::Fine).unwrap_or_default();
        let mut calls = Vec::new();
        for (part, (letter, fate)) in letters.iter().zip(&fates).enumerate() {
            let message = if *fate == Fate::Torn { letter.torn()? } else { letter.message()? };
            calls.push((part, if part == amended { message.due_in(AMENDED_DUE) } else { message }));
        }
        for _ in 0..duplicates {
            // The amended one comes just twice: an old copy after the amendment would amend it back.
            let others: Vec<_> = (0..calls.len()).filter(|place| calls[*place].0 != amended).collect();
            let original = random.one_of(&others);
            let (part, message) = calls[original].clone();
            // Soon after, as impatient senders do, or much later, as broken ones do.
            let distance = if random.percent(50) { 1 } else { random.between(2, 12) };
            let place = original.saturating_add(usize::try_from(distance).unwrap_or(1)).min(calls.len());
            calls.insert(place, (part, message));
        }
        letters[amended].amend();
        let first = calls.iter().position(|(part, _)| *part == amended).unwrap_or_default();
        let amendment = letters[amended].message()?.due_in(AMENDED_DUE);
        calls.insert((first + 3).min(calls.len()), (amended, amendment));
        let parts = letters.into_iter().zip(fates).map(|(letter, fate)| Part {
            source: letter.source,
            id: letter.id,
            topic: letter.topic,
            about: letter.about,
            fate,
            takes: Duration::from_millis(random.between(120, 600)),
        });
        let parts: Vec<_> = parts.collect();
        let places = parts.iter().enumerate().map(|(place, part)| (part.id.clone(), place)).collect();
        Ok(Self { parts, arrivals: schedule(&mut random, calls), places })
    }

    /// The place of the part with this id.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied()
    }
}

/// One of each special fate, the rest fine or flaky. What takes long comes early.
fn fates(random: &mut Random, count: usize) -> Vec<Fate> {
    let special = [Fate::Fine, Fate::Busy, Fate::Refused, Fate::Panics, Fate::Torn, Fate::Flaky(1)];
    let ordinary = |random: &mut Random| match random.between(0, 9) {
        0 => Fate::Flaky(1),
        1 => Fate::Flaky(2),
        _ => Fate::Fine,
    };
    let mut fates = special.to_vec();
    while fates.len() + 2 < count {
        fates.push(ordinary(random));
    }
    random.shuffle(&mut fates);
    fates.insert(count / 5, Fate::Stubborn);
    fates.insert(count * 2 / 5, Fate::Crash);
    fates
}

/// Spreads the calls over time, unevenly.
fn schedule(random: &mut Random, calls: Vec<(usize, Message)>) -> Vec<Arrival> {
    let count = u32::try_from(calls.len()).unwrap_or(u32::MAX);
    let gap = (ARRIVING / count.max(1)).min(GAP_MAX);
    let mut at = Duration::ZERO;
    let arrival = |(part, message)| {
        at += gap.mul_f64(f64::from(u32::try_from(random.between(20, 180)).unwrap_or(100)) / 100.0);
        Arrival { at, part, message }
    };
    calls.into_iter().map(arrival).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{ARRIVALS_MAX, ARRIVALS_MIN, Fate, Script};

    #[test]
    fn every_script_has_every_fate_and_as_many_calls_as_asked_for() {
        for seed in 0..50 {
            for count in [ARRIVALS_MIN, 40, ARRIVALS_MAX] {
                let count = usize::try_from(count).unwrap();
                let script = Script::write(count, seed).unwrap();
                assert_eq!(script.arrivals.len(), count);
                assert_eq!(script.parts.len(), count - count / 5 - 1);
                for fate in [Fate::Fine, Fate::Busy, Fate::Refused, Fate::Panics, Fate::Torn] {
                    assert!(script.parts.iter().any(|part| part.fate == fate), "{fate:?}");
                }
                for fate in [Fate::Stubborn, Fate::Crash] {
                    assert_eq!(script.parts.iter().filter(|part| part.fate == fate).count(), 1, "{fate:?}");
                }
                let ids: HashSet<_> = script.parts.iter().map(|part| part.id.as_str()).collect();
                assert_eq!(ids.len(), script.parts.len());
                assert!(script.arrivals.is_sorted_by_key(|arrival| arrival.at));
            }
        }
    }

    #[test]
    fn the_same_seed_writes_the_same_script() {
        let calls = |seed| -> Vec<_> {
            let script = Script::write(40, seed).unwrap();
            script.arrivals.into_iter().map(|arrival| (arrival.at, arrival.part)).collect()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }
}
