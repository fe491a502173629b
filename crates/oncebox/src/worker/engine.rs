//! The worker's main loop: one task that owns all of its state.
//!
//! At most one call that settles and claims, one that extends and one that reads the paused topics are in flight at a
//! time. Meanwhile handlers keep running and results queue up; the next call takes all of them.

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

use super::attempt::{DeliveryKey, Ended};
use super::calls::{ExtendCall, PausesCall, Unanswered, WorkCall, completed};
use super::in_flight::InFlight;
use super::options::Options;
use super::route::RouteTable;
use super::summary::WorkerSummary;
use crate::loop_monitor::LoopMonitor;
use crate::shared::Shared;
use crate::telemetry;
pub(super) use stopping::Mode;

/// The loop runs at least this often, so that health checks see progress.
const TICK_INTERVAL: Duration = Duration::from_secs(5);

/// First delay before a failed call is retried. It doubles with each failure.
const RETRY_SHORTEST: Duration = Duration::from_millis(50);
/// Maximum of that delay.
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// A command to a running worker.
pub(super) enum Command {
    Pause(oneshot::Sender<()>),
    Resume,
    /// Pauses, and replies when nothing is in flight any more.
    Drain(oneshot::Sender<()>),
    Stop,
}

pub(super) struct Engine {
    shared: Arc<Shared>,
    options: Options,
    owner: Owner,
    name: Option<WorkerName>,
    routes: RouteTable,
    monitor: Arc<LoopMonitor>,
    wakeups: Box<dyn Wakeups>,
    in_flight: InFlight,
    tasks: JoinSet<Ended>,
    /// The delivery that each task handles.
    running: HashMap<task::Id, DeliveryKey>,
    work: Option<WorkCall>,
    extend: Option<ExtendCall>,
    /// Reads the paused topics before claims. Settlements do not wait for it.
    pauses: Option<PausesCall>,
    /// The paused topics were just read, so claims can be made however long that took.
    pauses_answered: bool,
    /// After a failure, the paused topics are not read before this moment.
    pauses_not_before: Instant,
    /// Claims whose response was lost. They are repeated with the same request ids, before any other claims.
    unanswered: Option<Unanswered>,
    /// A failed call is not retried before this moment.
    retry_at: Option<Instant>,
    failures: u32,
    polling: claiming::PollState,
    next_extend: Instant,
    /// A failed heartbeat is not retried before this moment, even if another one becomes due.
    extend_not_before: Instant,
    mode: Mode,
    /// Callers that wait until the worker is paused: until the last claim is answered.
    pause_waiters: Vec<oneshot::Sender<()>>,
    /// Callers that wait until nothing is in flight.
    drain_waiters: Vec<oneshot::Sender<()>>,
    summary: WorkerSummary,
}

impl Engine {
    pub(super) fn new(
        shared: Arc<Shared>,
        options: Options,
        routes: RouteTable,
        monitor: Arc<LoopMonitor>,
        mode: Mode,
    ) -> Self {
        let owner = options.owner.unwrap_or_else(|| shared.owner());
        let name = options.worker_name().expect("the name is checked when the worker is built");
        let interest = Interest { namespace: options.namespace, topics: routes.interest() };
        let wakeups = shared.store.wakeups(interest);
        let now = Instant::now();
        Self {
            polling: claiming::PollState::new(now, options.poll_interval),
            next_extend: now + options.lease / 3,
            extend_not_before: now,
            mode,
            shared,
            options,
            owner,
            name,
            routes,
            monitor,
            wakeups,
            in_flight: InFlight::default(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            work: None,
            extend: None,
            pauses: None,
            pauses_answered: false,
            pauses_not_before: now,
            unanswered: None,
            retry_at: None,
            failures: 0,
            pause_waiters: Vec::new(),
            drain_waiters: Vec::new(),
            summary: WorkerSummary::default(),
        }
    }

    /// Works until a command stops it, until the goal of its mode is reached, or until the store fails with an error
    /// that a retry cannot fix. Can be called again in the mode [`Mode::UNTIL_IDLE`].
    pub(super) async fn run(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<WorkerSummary, Error> {
        loop {
            // A store whose calls complete at once must not starve the handlers on the same thread.
            tokio::task::consume_budget().await;
            let now = Instant::now();
            self.monitor.tick();
            self.check_lapsed_leases(now);
            self.start_queued(now);
            self.call_store(now);
            self.extend_leases(now);
            self.confirm_pauses();
            if self.has_ended(now) {
                return Ok(self.summary);
            }
            let timer = self.next_timer(now);
            tokio::select! {
                biased;
                command = commands.recv(), if !self.mode.is_stopping() => {
                    self.handle_command(command.unwrap_or(Command::Stop));
                }
                (response, request, sent_at) = completed(&mut self.work) => self.worked(response, request, sent_at)?,
                (response, request, sent_at) = completed(&mut self.extend) => self.extended(response, &request, sent_at)?,
                (response, (), _) = completed(&mut self.pauses) => self.pauses_read(response)?,
                Some(ended) = self.tasks.join_next_with_id() => {
                    self.ended(ended);
                    // Handlers that can end right away do so first; the next call then settles all of them.
                    tokio::task::yield_now().await;
                    while let Some(ended) = self.tasks.try_join_next_with_id() {
                        self.ended(ended);
                    }
                }
                () = self.wakeups.wait(), if self.polling.wants_wakeups() && !self.mode.is_pass() => self.polling.wake(),
                () = sleep_until(timer) => {}
            }
        }
    }

    /// Records that a call failed. An error that a retry cannot fix ends the worker.
    fn failed(&mut self, call: &'static str, error: Error) -> Result<(), Error> {
        let is_first = self.monitor.failed(call, &error);
        telemetry::call_failed(call);
        let store = &self.shared.name;
        if !error.is_retryable() {
            tracing::error!(%store, call, %error, "store call failed permanently, worker ends");
            self.monitor.terminated(&error);
            return Err(error);
        }
        if self.mode.gives_up(self.failures) {
            return Err(error);
        }
        // Further failures show in health.
        if is_first {
            warn!(%store, call, %error, "store call failed, retrying");
        }
        Ok(())
    }

    /// The delay before a failed call is retried.
    fn pause_after_failure(&self) -> Duration {
        let pause = RETRY_SHORTEST.saturating_mul(1 << self.failures.min(16)).min(RETRY_LONGEST);
        pause.mul_f64(0.5 + self.shared.fraction() / 2.0)
    }

    /// When the loop runs next if nothing else happens.
    fn next_timer(&mut self, now: Instant) -> Instant {
        let idle = self.work.is_none();
        let retry = self.retry_at.filter(|_| idle);
        let repeat = self.unanswered.as_ref().map(|_| now);
        let poll = (idle && self.retry_at.is_none()).then(|| repeat.or(self.next_claim(now))).flatten();
        let poll = poll.and_then(|at| self.once_pauses_are_known(at));
        let can_extend = self.extend.is_none() && !self.in_flight.is_empty();
        let extend = can_extend.then(|| self.next_extend.max(self.extend_not_before));
        let next_lapse = self.in_flight.next_lapse;
        let start = if self.in_flight.queue.is_empty() { None } else { self.routes.next_rate(now) };
        let stop = self.mode.next_deadline();
        let moments = [retry, poll, extend, next_lapse, start, stop];
        moments.into_iter().flatten().min().unwrap_or(now + TICK_INTERVAL).min(now + TICK_INTERVAL)
    }
}
