//! `failover`: a primary is killed under load and its synchronous replica takes over; then the logs are checked.

use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::{Postgres, Replica};

use super::kill_workers::Progress;
use super::processes::Processes;
use super::{Scratch, inspect, store_handle};
use crate::Failure;
use crate::clock::{now, pause};

const WORKERS: u64 = 4;
const MESSAGES: u64 = 1_000;
/// The primary is killed when a third of the messages are finished, after a random delay of at most this.
const KILL_DELAY_MS_MAX: u64 = 400;
/// The first answer comes at most this long after the kill.
const DOWNTIME_MS_MAX: u64 = 10_000;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs the campaign and returns a summary. Fails at the first violation.
pub(crate) fn run(seed: u64) -> Result<String, Failure> {
    let scratch = Scratch::make("failover")?;
    let outcome = attempt(seed, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {seed}: {failure}").into()))
}

fn attempt(seed: u64, scratch: &Scratch) -> Result<String, Failure> {
    let (mut primary, mut rng) = (Postgres::start()?, SplitMix::new(seed));
    let url = primary.url();
    store_handle::create_schema(&url)?;
    let replica = Replica::of(&primary)?;
    Processes::publish_url(scratch.path(), &url)?;
    let mut processes = Processes::start(scratch.path(), MESSAGES, rng.next_u64(), false)?;
    for _ in 0..WORKERS {
        processes.add_worker()?;
    }
    let mut progress = Progress::new(processes.messages());
    while !progress.has_reached(0, 2) {
        processes.check()?;
        progress.update(&url)?;
        pause(POLL_INTERVAL);
    }
    pause(Duration::from_millis(rng.below(KILL_DELAY_MS_MAX)));

    let began = now();
    primary.kill();
    let killed = now();
    let promoted = replica.promote()?;
    let url = promoted.url();
    Processes::publish_url(scratch.path(), &url)?;
    let published = now();

    while !(processes.has_sent_all() && progress.is_idle()) {
        processes.check()?;
        progress.update(&url)?;
        pause(POLL_INTERVAL);
    }
    let (took, logs) = (progress.took(), processes.finish()?);
    let tally = logs.check(&inspect::rows(&url)?)?;
    let first = logs.first_answer_after(killed).ok_or("no call was answered after the kill")?;
    let (downtime, promotion) = (first.saturating_sub(began), published.saturating_sub(began));
    if downtime > DOWNTIME_MS_MAX {
        return Err(format!("no call was answered for {downtime} ms after the kill").into());
    }
    Ok(format!(
        "failover: first answer {downtime} ms after the kill, replica promoted after {promotion} ms, {took} ms in total; {tally}"
    ))
}
