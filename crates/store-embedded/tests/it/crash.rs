//! Crashes at every point of many histories, and damage to the resulting files. `ONCEBOX_CRASH_POINTS` and
//! `ONCEBOX_CRASH_FLIPS` set the number of crashes and of damaged files, `ONCEBOX_CRASH_SEED` selects other histories.

mod checker;
mod fences;
mod history;
mod recording_disk;

use std::collections::HashSet;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};

use oncebox_testkit::SplitMix;

use checker::{Bounds, Reopened, bounds, check, check_damaged, exactly, lower};
use history::{History, record};
use recording_disk::{Loss, Playback};

const STEPS: usize = 60;
/// Bytes of a segment header: a newest segment without it cannot be distinguished from one that was never started.
const HEADER_BYTES: usize = 72;
/// One crash in this many is followed by another, while the store is being opened or just after.
const TWICE_ONE_IN: u64 = 8;

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a whole number, not {text:?}")))
}

/// Histories with consecutive seeds, starting at `ONCEBOX_CRASH_SEED`: with one, one, two and four callers in turn.
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
    /// Crashes one history at each position, with each kind of loss.
    fn crash(&mut self, seed: u64, history: &History, wanted: u64) {
        let mut rng = SplitMix::new(seed);
        let mut known = HashSet::new();
        let end = history.disk.position();
        let mut playback = history.disk.replay(0);
        for position in 0..=end {
            history.disk.advance(&mut playback, position);
            for loss in Loss::ALL {
                let bounds = bounds(history, position, loss != Loss::Nothing);
                let left = playback.crash(loss, &mut rng);
                if self.points >= wanted || !known.insert(fingerprint(&left, &bounds)) {
                    continue;
                }
                self.points += 1;
                let description = format!("seed {seed}, crash at {position} of {end}, lost {loss:?}");
                let boot = boot_after(loss, "first", "second");
                let opened = check(left, history, &bounds, boot);
                let opened = opened.unwrap_or_else(|wrong| panic!("{description}: {wrong}"));
                if rng.below(TWICE_ONE_IN) == 0 {
                    self.twice += 1;
                    let again = again(&opened, (loss, boot), history, position, &mut rng);
                    again.unwrap_or_else(|wrong| panic!("{description}, and again: {wrong}"));
                }
            }
        }
    }
}

/// A second crash, before the first read of the reopened store returned or right then.
fn again(
    opened: &Reopened,
    (lost_before, boot): (Loss, &'static str),
    history: &History,
    crashed: usize,
    rng: &mut SplitMix,
) -> Result<Reopened, String> {
    let Reopened { disk, confirmed, positions } = opened;
    let confirmed = *confirmed as u64;
    let position = if rng.below(4) == 0 { confirmed } else { rng.below(confirmed + 1) };
    let loss = Loss::ALL[usize::try_from(rng.below(4)).unwrap()];
    let left = disk.replay(usize::try_from(position).unwrap()).crash(loss, rng);
    let power_cut = [lost_before, loss].iter().any(|loss| *loss != Loss::Nothing);
    let bounds = if position == confirmed { exactly(positions) } else { bounds(history, crashed, power_cut) };
    check(left, history, &bounds, boot_after(loss, boot, "third"))
        .map_err(|wrong| format!("at {position} of {confirmed}, lost {loss:?}: {wrong}"))
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

/// At every position of a history, the loss of any one segment is detected, unless the segment is not needed.
#[test]
fn a_lost_segment_is_detected_at_every_position() {
    let mut rejected = 0;
    for (seed, history) in histories().take(4) {
        let mut rng = SplitMix::new(seed);
        let mut playback = history.disk.replay(0);
        for position in 0..=history.disk.position() {
            history.disk.advance(&mut playback, position);
            let bounds = bounds(&history, position, false);
            let is_used = |name: &str, bytes: &[u8]| {
                name.strip_suffix(".seg").is_some() && bytes.iter().any(|byte| *byte != 0)
            };
            let files = playback.files();
            for (name, _) in files.iter().filter(|(name, bytes)| is_used(name, bytes)) {
                let mut left = playback.crash(Loss::Nothing, &mut rng);
                left.damage(name, |bytes| bytes.fill(0));
                let opened = check_damaged(left, &history, &bounds);
                let opened =
                    opened.unwrap_or_else(|error| panic!("seed {seed}, {name} lost at {position}: {error}"));
                rejected += u64::from(!opened);
            }
        }
    }
    assert!(rejected > 0);
}

/// Flips a bit, truncates a file, wipes a sector, or appends garbage. Returns a description, and whether several frames
/// may be damaged.
fn damage(left: &mut Playback, rng: &mut SplitMix) -> (String, bool) {
    let files = left.files();
    let filled = files.iter().filter(|(_, bytes)| !bytes.is_empty());
    let names: Vec<_> = filled.map(|(name, bytes)| (name.clone(), bytes.len())).collect();
    let (name, size) = &names[usize::try_from(rng.below(names.len() as u64)).unwrap()];
    // Most of a segment is often empty, so half of all damage goes to the used part.
    let used = files[name].iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    let reach = if rng.below(2) == 0 { used } else { *size };
    let offset = rng.below(reach as u64);
    let (offset, kind, bit) = (usize::try_from(offset).unwrap(), rng.below(8), rng.below(8));
    left.damage(name, |bytes| match kind {
        0 => bytes.truncate(offset),
        1 => bytes[offset..].iter_mut().take(512).for_each(|byte| *byte = 0),
        2 => bytes.extend(std::iter::repeat_n(0xA5, 1 + offset % 700)),
        _ => bytes[offset] ^= 1 << bit,
    });
    let wide = kind == 1 || (kind == 0 && offset < HEADER_BYTES);
    (format!("damage {kind} to {name} at {offset} (used {used})"), wide)
}

/// Holds: RULE-13.
#[test]
fn crash_damage() {
    let wanted = variable("ONCEBOX_CRASH_FLIPS").unwrap_or(2_000);
    let (mut points, mut rejected) = (0, 0);
    for (seed, history) in histories() {
        let mut rng = SplitMix::new(seed);
        let end = history.disk.position();
        for _ in 0..500.min(wanted - points) {
            let position =
                if rng.below(4) == 0 { end } else { usize::try_from(rng.below(end as u64)).unwrap() };
            let mut left = history.disk.replay(position).crash(Loss::Nothing, &mut rng);
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
            rejected += u64::from(!opened);
        }
        if points >= wanted {
            break;
        }
    }
    println!(
        "{points} damaged journals, {rejected} rejected, the others opened with everything they had to contain"
    );
}
