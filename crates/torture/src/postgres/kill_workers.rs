//! `kill-workers`: workers and senders are killed, backends are cut off, the server is restarted; then the logs are judged.

use std::time::Duration;

use oncebox_core::Rng;
use oncebox_testkit::SplitMix;
use oncebox_testkit::servers::Postgres;

use super::crew::Crew;
use super::{Scratch, door, look};
use crate::Failure;
use crate::clock::{now, pause};

/// Messages for each kill of a process and each cut of backends.
const MESSAGES_PER_EVENT: u64 = 500;
const EVENTS_MIN: u64 = 6;
/// Backends that are cut off at once, at most.
const CUT_MAX: u64 = 3;
/// A server that confirms before it has written loses little at a time, and not every loss shows.
const RESTARTS_LAZY: u64 = 10;
/// How long a server stays away, at most.
const AWAY_MS_MAX: u64 = 500;
const LOOK: Duration = Duration::from_millis(100);
/// No message is finished for so long: then none ever will be.
const STANDSTILL_MS_MAX: u64 = 60_000;

/// What to run, how much of it, and what is broken on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KillWorkers {
    pub(crate) workers: u64,
    pub(crate) messages: u64,
    pub(crate) seed: u64,
    pub(crate) plant: Option<Plant>,
}

/// A fault that the judge must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Workers acknowledge what they have lost, and say that it counts.
    StaleAck,
    /// The server confirms before it has written.
    AsyncCommit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Kill,
    Cut,
    Restart,
}

/// Runs it; the answer tells what was seen. The first broken promise is the failure.
pub(crate) fn run(campaign: &KillWorkers) -> Result<String, Failure> {
    let scratch = Scratch::make("kill-workers")?;
    let outcome = attempt(campaign, &scratch);
    scratch.close(outcome.map_err(|failure| format!("seed {}: {failure}", campaign.seed).into()))
}

fn attempt(campaign: &KillWorkers, scratch: &Scratch) -> Result<String, Failure> {
    let is_lazy = campaign.plant == Some(Plant::AsyncCommit);
    let lazy: &[_] = &[("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let mut server = Postgres::with(if is_lazy { lazy } else { &[] })?;
    let (url, mut rng) = (server.url(), SplitMix::new(campaign.seed));
    door::prepare(&url)?;
    server.psql("checkpoint")?;
    Crew::point(scratch.path(), &url)?;
    let lies = campaign.plant == Some(Plant::StaleAck);
    let mut crew = Crew::start(scratch.path(), campaign.messages, rng.next_u64(), lies)?;
    for _ in 0..campaign.workers {
        crew.add_worker()?;
    }
    let deck = deck(campaign.messages, if is_lazy { RESTARTS_LAZY } else { 1 }, &mut rng);
    let (mut done, mut cut) = (0, 0);
    let mut progress = Progress::new(crew.messages());
    while !(crew.has_sent_all() && progress.is_idle()) {
        crew.check()?;
        progress.look(&url)?;
        while done < deck.len() && progress.has_come_to(done, deck.len()) {
            match deck[done] {
                Event::Kill => crew.kill_one()?,
                Event::Cut => {
                    cut += look::terminate(&url, 1 + rng.below(CUT_MAX), rng.below(2) == 0)?;
                }
                Event::Restart => {
                    server.stop_immediately()?;
                    pause(Duration::from_millis(rng.below(AWAY_MS_MAX)));
                    server.start_again()?;
                }
            }
            done += 1;
            pause(Duration::from_millis(rng.below(60)));
        }
        pause(LOOK);
    }
    let (took, logs) = (progress.took(), crew.end()?);
    let tally = logs.judge(&look::rows(&url)?)?;
    let kills = deck.iter().filter(|event| **event == Event::Kill).count();
    let restarts = deck.iter().filter(|event| **event == Event::Restart).count();
    Ok(format!(
        "kill-workers: {} workers, {kills} kills, {cut} backends cut off, the server restarted {restarts} times, {took} ms; {tally}",
        campaign.workers
    ))
}

/// What happens, in this order: restarts among kills and cuts.
fn deck(messages: u64, restarts: u64, rng: &mut SplitMix) -> Vec<Event> {
    let count = (messages / MESSAGES_PER_EVENT).max(EVENTS_MIN);
    let mut deck: Vec<_> = (0..count).flat_map(|_| [Event::Kill, Event::Cut]).collect();
    deck.extend((0..restarts).map(|_| Event::Restart));
    for place in (1..deck.len()).rev() {
        let other = usize::try_from(rng.below(place as u64 + 1)).unwrap_or_default();
        deck.swap(place, other);
    }
    deck
}

/// How far the load has come.
pub(super) struct Progress {
    messages: u64,
    counts: look::Counts,
    began: u64,
    moved: u64,
}

impl Progress {
    pub(super) fn new(messages: u64) -> Self {
        Self { messages, counts: look::Counts { finished: 0, open: 1 }, began: now(), moved: now() }
    }

    pub(super) fn look(&mut self, url: &str) -> Result<(), Failure> {
        let counts = look::counts(url).unwrap_or(self.counts);
        if counts != self.counts {
            (self.counts, self.moved) = (counts, now());
        }
        if now() > self.moved + STANDSTILL_MS_MAX {
            return Err(format!("nothing moves any more: {counts:?} of {} messages", self.messages).into());
        }
        Ok(())
    }

    /// Everything that is there is finished.
    pub(super) fn is_idle(&self) -> bool {
        self.counts.open == 0
    }

    /// Whether it is the turn of an event, if all are spread over the load.
    pub(super) fn has_come_to(&self, event: usize, events: usize) -> bool {
        self.counts.finished * (events as u64 + 1) >= self.messages * (event as u64 + 1)
    }

    pub(super) fn took(&self) -> u64 {
        now().saturating_sub(self.began)
    }
}
