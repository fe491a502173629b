//! The loop of a worker: one task that owns everything it decides on.
//!
//! At any time at most one call settles and claims, and one extends. While they are under way handlers go on, results
//! gather, and the next call takes all of them along.

mod claiming;
mod leases;
mod settling;
mod stopping;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Error, Interest, Owner, Wakeups, WorkerName};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::Stopped;
use super::attempt::{Ended, Ticket};
use super::calls::{ExtendCall, Unanswered, WorkCall, answered};
use super::held::Held;
use super::options::Options;
use super::route::Lanes;
use crate::health::Pulse;
use crate::shared::Shared;
use crate::telemetry;
pub(super) use stopping::Mode;

/// The loop turns at least so often, for health to see.
const TURN_INTERVAL: Duration = Duration::from_secs(5);

/// How long a failed call waits before it is repeated: from here, doubling,
const RETRY_SHORTEST: Duration = Duration::from_millis(50);
/// to here.
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// What a running worker is told.
pub(super) enum Command {
    Pause(oneshot::Sender<()>),
    Resume,
    /// Pauses, and answers when nothing is held any more.
    Drain(oneshot::Sender<()>),
    Stop,
}

pub(super) struct Engine {
    shared: Arc<Shared>,
    options: Options,
    owner: Owner,
    name: Option<WorkerName>,
    lanes: Lanes,
    pulse: Arc<Pulse>,
    wakeups: Box<dyn Wakeups>,
    held: Held,
    tasks: JoinSet<Ended>,
    /// Which delivery each task is for.
    running: HashMap<task::Id, Ticket>,
    work: Option<WorkCall>,
    extend: Option<ExtendCall>,
    /// Claims whose answer was lost: made again, by the same request ids, before others.
    unanswered: Option<Unanswered>,
    /// Not before this moment is a failed call repeated.
    retry_at: Option<Instant>,
    failures: u32,
    appetite: claiming::Appetite,
    next_beat: Instant,
    /// Not before this moment is a failed heartbeat repeated, whoever wants one.
    beat_after: Instant,
    mode: Mode,
    /// Those who wait until nothing is held.
    /// Who waits for a pause to begin: for the answer to the last claim.
    pausing: Vec<oneshot::Sender<()>>,
    draining: Vec<oneshot::Sender<()>>,
    stopped: Stopped,
}

impl Engine {
    pub(super) fn new(
        shared: Arc<Shared>,
        options: Options,
        lanes: Lanes,
        pulse: Arc<Pulse>,
        mode: Mode,
    ) -> Self {
        let owner = options.owner.unwrap_or_else(|| shared.owner());
        let name = options.worker_name().expect("the name is checked when the worker is built");
        let interest = Interest { namespace: options.namespace, topics: lanes.interest() };
        let wakeups = shared.store.wakeups(interest);
        let now = Instant::now();
        Self {
            appetite: claiming::Appetite::new(now, options.poll_interval),
            next_beat: now + options.lease / 3,
            beat_after: now,
            mode,
            shared,
            options,
            owner,
            name,
            lanes,
            pulse,
            wakeups,
            held: Held::default(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            work: None,
            extend: None,
            unanswered: None,
            retry_at: None,
            failures: 0,
            pausing: Vec::new(),
            draining: Vec::new(),
            stopped: Stopped::default(),
        }
    }

    /// Works until it is told to stop, or the store cannot be worked on any more.
    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>) -> Result<Stopped, Error> {
        loop {
            // A store that answers at once must not keep handlers on the same thread from their turn.
            tokio::task::consume_budget().await;
            let now = Instant::now();
            self.pulse.turned();
            self.watch_leases(now);
            self.start_queued(now);
            self.call_store(now);
            self.extend_leases(now);
            self.tell_paused();
            if self.has_ended(now) {
                return Ok(self.stopped);
            }
            let timer = self.next_timer(now);
            tokio::select! {
                biased;
                command = commands.recv(), if !self.mode.is_stopping() => {
                    self.obey(command.unwrap_or(Command::Stop));
                }
                (answer, about, sent_at) = answered(&mut self.work) => self.worked(answer, about, sent_at)?,
                (answer, about, sent_at) = answered(&mut self.extend) => self.extended(answer, &about, sent_at)?,
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.ended(ended);
                    // Others that can end right away do so first, and the next call takes all of them along.
                    tokio::task::yield_now().await;
                    while let Some(ended) = self.tasks.try_join_next_with_id() {
                        self.ended(ended);
                    }
                }
                () = self.wakeups.wait(), if self.appetite.listens() && !self.mode.is_pass() => self.appetite.woken(),
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Notes that a call failed. What cannot succeed later ends the worker.
    fn failed(&mut self, call: &'static str, error: Error) -> Result<(), Error> {
        let is_first = self.pulse.failed(call, &error);
        telemetry::call_failed(call);
        let store = &self.shared.name;
        if !error.is_retryable() {
            tracing::error!(%store, call, %error, "the store cannot be worked on: the worker ends");
            self.pulse.fell(&error);
            return Err(error);
        }
        if self.mode.gives_up(self.failures) {
            return Err(error);
        }
        // One that goes on failing shows in health.
        if is_first {
            warn!(%store, call, %error, "a call failed and is repeated");
        }
        Ok(())
    }

    /// How long to wait before a failed call is repeated.
    fn pause_after_failure(&self) -> Duration {
        let pause = RETRY_SHORTEST.saturating_mul(1 << self.failures.min(16)).min(RETRY_LONGEST);
        pause.mul_f64(0.5 + self.shared.fraction() / 2.0)
    }

    /// When there is something to do even if nothing happens.
    fn next_timer(&mut self, now: Instant) -> Instant {
        let idle = self.work.is_none();
        let retry = self.retry_at.filter(|_| idle);
        let poll = (idle && self.retry_at.is_none()).then(|| self.next_claim(now)).flatten();
        let beats = self.extend.is_none() && !self.held.is_empty();
        let beat = beats.then(|| self.next_beat.max(self.beat_after));
        let watch = self.held.watch;
        let start = if self.held.queue.is_empty() { None } else { self.lanes.next_rate(now) };
        let stop = self.mode.next_deadline();
        let moments = [retry, poll, beat, watch, start, stop];
        moments.into_iter().flatten().min().unwrap_or(now + TURN_INTERVAL).min(now + TURN_INTERVAL)
    }
}
