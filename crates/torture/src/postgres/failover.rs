//! `failover`: a primary is killed under load and its synchronous replica takes over; then the logs are judged.

use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, Replica};

use super::crew::Crew;
use super::kill_workers::Progress;
use super::{Scratch, door, look};
use crate::Failure;
use crate::clock::{now, pause};

const WORKERS: u64 = 4;
const MESSAGES: u64 = 1_000;
/// The primary goes when a third of the load is done, or so much later.
const LATER_MS_MAX: u64 = 400;
/// Somebody is answered again so soon after the kill.
const AWAY_MS_MAX: u64 = 10_000;
const LOOK: Duration = Duration::from_millis(50);

/// Runs it; the answer tells what was seen. The first broken promise is the failure.
pub(crate) fn run(seed: u64) -> Result<String, Failure> {
    let scratch = Scratch::make("failover")?;
    let outcome = attempt(seed, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {seed}: {failure}").into()))
}

fn attempt(seed: u64, scratch: &Scratch) -> Result<String, Failure> {
    let (mut primary, mut rng) = (Postgres::start()?, SplitMix::new(seed));
    let url = primary.url();
    door::prepare(&url)?;
    let replica = Replica::of(&primary)?;
    Crew::point(scratch.path(), &url)?;
    let mut crew = Crew::start(scratch.path(), MESSAGES, rng.next_u64(), false)?;
    for _ in 0..WORKERS {
        crew.add_worker()?;
    }
    let mut progress = Progress::new(crew.messages());
    while !progress.has_come_to(0, 2) {
        crew.check()?;
        progress.look(&url)?;
        pause(LOOK);
    }
    pause(Duration::from_millis(rng.below(LATER_MS_MAX)));

    let began = now();
    primary.kill();
    let killed = now();
    let promoted = replica.promote()?;
    let url = promoted.url();
    Crew::point(scratch.path(), &url)?;
    let pointed = now();

    while !(crew.has_sent_all() && progress.is_idle()) {
        crew.check()?;
        progress.look(&url)?;
        pause(LOOK);
    }
    let (took, logs) = (progress.took(), crew.end()?);
    let tally = logs.judge(&look::rows(&url)?)?;
    let first = logs.first_answer_after(killed).ok_or("nobody was answered after the kill")?;
    let (away, promotion) = (first.saturating_sub(began), pointed.saturating_sub(began));
    if away > AWAY_MS_MAX {
        return Err(format!("nobody was answered for {away} ms after the kill").into());
    }
    Ok(format!(
        "failover: the first answer {away} ms after the kill, the replica in place after {promotion} ms, {took} ms in all; {tally}"
    ))
}
