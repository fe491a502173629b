//! A crash at every moment of many histories, and damage to what they left. `ONCEBOX_CRASH_POINTS` asks for more,
//! `ONCEBOX_CRASH_SEED` for other histories.

mod fences;
mod history;
mod judge;
mod tape;

use std::collections::HashSet;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};

use oncebox_testkit::SplitMix;

use history::{History, record};
use judge::{Bounds, Reopened, bounds, check, check_damaged, exactly, lower};
use tape::{Loss, Playback};

const STEPS: usize = 60;
/// Of a segment: a newest one without them cannot be told from one that was never begun.
const HEADER_BYTES: usize = 72;
/// One crash in so many is followed by another, while the store is being opened or just after.
const TWICE_ONE_IN: u64 = 8;

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Histories one after another, from the seed that was asked for on: alone, alone, two callers, four.
fn histories() -> impl Iterator<Item = (u64, History)> {
    let first = variable("ONCEBOX_CRASH_SEED").unwrap_or(1);
    (first..).map(|seed| (seed, record(seed, [1, 1, 2, 4][usize::try_from(seed % 4).unwrap()], STEPS)))
}

fn boot_after(loss: Loss, before: &'static str, next: &'static str) -> &'static str {
    if loss == Loss::Nothing { before } else { next }
}

#[derive(Default)]
struct Campaign {
    points: u64,
    twice: u64,
}

impl Campaign {
    /// Crashes one history at each of its moments, in each way.
    fn crash(&mut self, seed: u64, history: &History, wanted: u64) {
        let mut rng = SplitMix::new(seed);
        let mut known = HashSet::new();
        let end = history.tape.position();
        let mut playback = history.tape.replay(0);
        for position in 0..=end {
            history.tape.advance(&mut playback, position);
            for loss in Loss::ALL {
                let bounds = bounds(history, position, loss != Loss::Nothing);
                let left = playback.crash(loss, &mut rng);
                if self.points >= wanted || !known.insert(fingerprint(&left, &bounds)) {
                    continue;
                }
                self.points += 1;
                let place = format!("seed {seed}, crash at {position} of {end}, lost {loss:?}");
                let boot = boot_after(loss, "first", "second");
                let opened = check(left, history, &bounds, boot);
                let opened = opened.unwrap_or_else(|wrong| panic!("{place}: {wrong}"));
                if rng.below(TWICE_ONE_IN) == 0 {
                    self.twice += 1;
                    let again = again(&opened, (loss, boot), history, position, &mut rng);
                    again.unwrap_or_else(|wrong| panic!("{place}, and again: {wrong}"));
                }
            }
        }
    }
}

/// A second crash, before the first reader of the reopened store was answered or right then.
fn again(
    opened: &Reopened,
    (lost_before, boot): (Loss, &'static str),
    history: &History,
    crashed: usize,
    rng: &mut SplitMix,
) -> Result<Reopened, String> {
    let Reopened { tape, answered, standing } = opened;
    let answered = *answered as u64;
    let position = if rng.below(4) == 0 { answered } else { rng.below(answered + 1) };
    let loss = Loss::ALL[usize::try_from(rng.below(4)).unwrap()];
    let left = tape.replay(usize::try_from(position).unwrap()).crash(loss, rng);
    let power_cut = [lost_before, loss].iter().any(|loss| *loss != Loss::Nothing);
    let bounds = if position == answered { exactly(standing) } else { bounds(history, crashed, power_cut) };
    check(left, history, &bounds, boot_after(loss, boot, "third"))
        .map_err(|wrong| format!("at {position} of {answered}, lost {loss:?}: {wrong}"))
}

fn fingerprint(left: &Playback, bounds: &[Bounds]) -> u64 {
    let mut hasher = DefaultHasher::new();
    (left.files(), bounds).hash(&mut hasher);
    hasher.finish()
}

/// Holds: RULE-05, RULE-13.
#[test]
fn crash_points() {
    let wanted = variable("ONCEBOX_CRASH_POINTS").unwrap_or(2_000);
    let mut campaign = Campaign::default();
    for (seed, history) in histories() {
        campaign.crash(seed, &history, wanted);
        if campaign.points >= wanted {
            break;
        }
    }
    let Campaign { points, twice } = campaign;
    println!("{points} distinct crash points, {twice} of them crashed twice");
}

/// At every moment of a history, the loss of any one segment is noticed, unless nothing in it counts any more or yet.
/// Holds: RULE-13.
#[test]
fn a_lost_segment_is_noticed_at_every_moment() {
    let mut refused = 0;
    for (seed, history) in histories().take(4) {
        let mut rng = SplitMix::new(seed);
        let mut playback = history.tape.replay(0);
        for position in 0..=history.tape.position() {
            history.tape.advance(&mut playback, position);
            let bounds = bounds(&history, position, false);
            let files = playback.files();
            let segments = files.iter().filter(|(name, bytes)| {
                name.strip_suffix(".seg").is_some() && bytes.iter().any(|byte| *byte != 0)
            });
            for (name, _) in segments {
                let mut left = playback.crash(Loss::Nothing, &mut rng);
                left.damage(name, |bytes| bytes.fill(0));
                let opened = check_damaged(left, &history, &bounds);
                let opened =
                    opened.unwrap_or_else(|wrong| panic!("seed {seed}, {name} lost at {position}: {wrong}"));
                refused += u64::from(!opened);
            }
        }
    }
    assert!(refused > 0);
}

/// Flips a bit, cuts a file short, wipes a sector, or adds bytes that do not belong there.
fn damage(left: &mut Playback, rng: &mut SplitMix) -> (String, bool) {
    let files = left.files();
    let filled = files.iter().filter(|(_, bytes)| !bytes.is_empty());
    let names: Vec<_> = filled.map(|(name, bytes)| (name.clone(), bytes.len())).collect();
    let (name, size) = &names[usize::try_from(rng.below(names.len() as u64)).unwrap()];
    // Most of a segment is often empty, so half of all damage goes to where something stands.
    let used = files[name].iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let reach = if rng.below(2) == 0 { used } else { *size };
    let place = rng.below(reach as u64);
    let (place, kind, bit) = (usize::try_from(place).unwrap(), rng.below(8), rng.below(8));
    left.damage(name, |bytes| match kind {
        0 => bytes.truncate(place),
        1 => bytes[place..].iter_mut().take(512).for_each(|byte| *byte = 0),
        2 => bytes.extend(std::iter::repeat_n(0xA5, 1 + place % 700)),
        _ => bytes[place] ^= 1 << bit,
    });
    let wide = kind == 1 || (kind == 0 && place < HEADER_BYTES);
    (format!("damage {kind} to {name} at {place} (used {used})"), wide)
}

/// Holds: RULE-13.
#[test]
fn crash_damage() {
    let wanted = variable("ONCEBOX_CRASH_FLIPS").unwrap_or(2_000);
    let (mut points, mut refused) = (0, 0);
    for (seed, history) in histories() {
        let mut rng = SplitMix::new(seed);
        let end = history.tape.position();
        for _ in 0..500.min(wanted - points) {
            let position =
                if rng.below(4) == 0 { end } else { usize::try_from(rng.below(end as u64)).unwrap() };
            let mut left = history.tape.replay(position).crash(Loss::Nothing, &mut rng);
            if left.files().values().all(Vec::is_empty) {
                continue;
            }
            points += 1;
            let (damage, wide) = damage(&mut left, &mut rng);
            let bounds = lower(&history, &bounds(&history, position, false), wide);
            let opened = check_damaged(left, &history, &bounds);
            let opened = opened.unwrap_or_else(|wrong| {
                panic!("seed {seed}, crash at {position} of {end}, {damage}: {wrong}")
            });
            refused += u64::from(!opened);
        }
        if points >= wanted {
            break;
        }
    }
    println!("{points} damaged journals, {refused} refused, the others opened with what they had to hold");
}
