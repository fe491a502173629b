//! `kill-workers`: workers and senders are killed, backends terminated, the server restarted; then the logs are
//! checked.

use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::Postgres;

use super::processes::Processes;
use super::{Scratch, inspect, store_handle};
use crate::Failure;
use crate::clock::{now, pause};

/// One kill and one termination of backends per this many messages.
const MESSAGES_PER_EVENT: u64 = 500;
const EVENTS_MIN: u64 = 6;
/// Maximum number of backends terminated at once.
const TERMINATED_MAX: u64 = 3;
/// With asynchronous commit, a restart loses little, and not every loss is detectable: hence several.
const RESTARTS_ASYNC_COMMIT: u64 = 10;
/// Maximum downtime of a restart.
const DOWNTIME_MS_MAX: u64 = 500;
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The campaign fails if no message is finished for this long.
const STALL_MS_MAX: u64 = 60_000;

/// The arguments of the campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillWorkers {
    pub(crate) workers: u64,
    pub(crate) messages: u64,
    pub(crate) seed: u64,
    pub(crate) plant: Option<PlantedBug>,
}

/// A deliberate bug that the campaign must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlantedBug {
    /// Workers acknowledge under lost leases, and log that the ack succeeded.
    StaleAck,
    /// The server confirms commits before they are durable.
    AsyncCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Kill,
    Terminate,
    Restart,
}

/// Runs the campaign and returns a summary. Fails at the first violation.
pub(crate) fn run(campaign: &KillWorkers) -> Result<String, Failure> {
    let scratch = Scratch::make("kill-workers")?;
    let outcome = attempt(campaign, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {}: {failure}", campaign.seed).into()))
}

fn attempt(campaign: &KillWorkers, scratch: &Scratch) -> Result<String, Failure> {
    let async_commit = campaign.plant == Some(PlantedBug::AsyncCommit);
    let lossy_settings: &[_] = &[("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let mut server = Postgres::with(if async_commit { lossy_settings } else { &[] })?;
    let (url, mut rng) = (server.url(), SplitMix::new(campaign.seed));
    store_handle::create_schema(&url)?;
    server.psql("checkpoint")?;
    Processes::publish_url(scratch.path(), &url)?;
    let fake_acks = campaign.plant == Some(PlantedBug::StaleAck);
    let mut processes = Processes::start(scratch.path(), campaign.messages, rng.next_u64(), fake_acks)?;
    for _ in 0..campaign.workers {
        processes.add_worker()?;
    }
    let schedule =
        schedule(campaign.messages, if async_commit { RESTARTS_ASYNC_COMMIT } else { 1 }, &mut rng);
    let (mut done, mut terminated) = (0, 0);
    let mut progress = Progress::new(processes.messages());
    while !(processes.has_sent_all() && progress.is_idle()) {
        processes.check()?;
        progress.update(&url)?;
        while done < schedule.len() && progress.has_reached(done, schedule.len()) {
            match schedule[done] {
                Event::Kill => processes.kill_one()?,
                Event::Terminate => {
                    terminated +=
                        inspect::terminate_backends(&url, 1 + rng.below(TERMINATED_MAX), rng.below(2) == 0)?;
                }
                Event::Restart => {
                    server.stop_immediately()?;
                    pause(Duration::from_millis(rng.below(DOWNTIME_MS_MAX)));
                    server.restart()?;
                }
            }
            done += 1;
            pause(Duration::from_millis(rng.below(60)));
        }
        pause(POLL_INTERVAL);
    }
    let (took, logs) = (progress.took(), processes.finish()?);
    let tally = logs.check(&inspect::rows(&url)?)?;
    let kills = schedule.iter().filter(|event| **event == Event::Kill).count();
    let restarts = schedule.iter().filter(|event| **event == Event::Restart).count();
    Ok(format!(
        "kill-workers: {} workers, {kills} kills, {terminated} backends terminated, {restarts} server restarts, {took} ms; {tally}",
        campaign.workers
    ))
}

/// All events in random order.
fn schedule(messages: u64, restarts: u64, rng: &mut SplitMix) -> Vec<Event> {
    let count = (messages / MESSAGES_PER_EVENT).max(EVENTS_MIN);
    let mut schedule: Vec<_> = (0..count).flat_map(|_| [Event::Kill, Event::Terminate]).collect();
    schedule.extend((0..restarts).map(|_| Event::Restart));
    for index in (1..schedule.len()).rev() {
        let other = usize::try_from(rng.below(index as u64 + 1)).unwrap_or_default();
        schedule.swap(index, other);
    }
    schedule
}

/// Progress of the load.
pub(super) struct Progress {
    messages: u64,
    counts: inspect::Counts,
    began: u64,
    changed_at: u64,
}

impl Progress {
    pub(super) fn new(messages: u64) -> Self {
        Self { messages, counts: inspect::Counts { finished: 0, open: 1 }, began: now(), changed_at: now() }
    }

    pub(super) fn update(&mut self, url: &str) -> Result<(), Failure> {
        let counts = inspect::counts(url).unwrap_or(self.counts);
        if counts != self.counts {
            (self.counts, self.changed_at) = (counts, now());
        }
        if now() > self.changed_at + STALL_MS_MAX {
            return Err(format!(
                "no progress for {STALL_MS_MAX} ms: {counts:?} of {} messages",
                self.messages
            )
            .into());
        }
        Ok(())
    }

    /// Whether every message in the store is finished.
    pub(super) fn is_idle(&self) -> bool {
        self.counts.open == 0
    }

    /// Whether the event at this index is due, with all events spread evenly over the messages.
    pub(super) fn has_reached(&self, event: usize, events: usize) -> bool {
        self.counts.finished * (events as u64 + 1) >= self.messages * (event as u64 + 1)
    }

    pub(super) fn took(&self) -> u64 {
        now().saturating_sub(self.began)
    }
}
