//! Maintenance: ends lapsed leases, expires and deletes messages, and wakes workers when messages become due.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Budget, Error, ErrorKind, Namespace, ReadyTopics};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, info, info_span, warn};

use crate::auto_pause::Exceeded;
use crate::front_store::Activity;
use crate::loop_monitor::LoopMonitor;
use crate::pauses::Pause;
use crate::shared::{Oncebox, Shared};
use crate::telemetry;

pub use oncebox_core::{Deaths, MaintenanceReport};

/// Maximum number of events and messages that one call processes.
const ITEMS_MAX: u32 = 1_000;
/// Longest pause between two calls. Any other call may have made something due earlier than the store last reported.
const INTERVAL: Duration = Duration::from_secs(1);
/// Longest pause for a store that other processes share: pauses grow to this while this process does not use the store.
/// The others run maintenance for what they do, and claims find what becomes due.
const IDLE_INTERVAL: Duration = Duration::from_secs(20);
/// How long to wait for something that is due by the local clock but not yet by the store's.
const CLOCK_SKEW_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of a store call.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends lapsed leases, expires messages, deletes messages after their retention, wakes workers for messages that have
/// become due, and warns about topics with ready messages that no worker of this process handles.
///
/// It is safe to run maintenance in every process at once. A [`crate::Worker`] runs it by default; run it yourself in
/// processes that only accept messages.
pub struct Maintenance {
    shared: Arc<Shared>,
    on_report: Option<ReportHook>,
}

type ReportHook = Box<dyn Fn(&MaintenanceReport) + Send + Sync>;

impl Oncebox {
    /// The maintenance task. A [`crate::Worker`] runs it on its own.
    pub fn maintenance(&self) -> Maintenance {
        Maintenance { shared: self.shared(), on_report: None }
    }
}

impl Maintenance {
    /// Calls `hook` with the report of each batch, for example to update metrics.
    #[must_use]
    pub fn on_report(mut self, hook: impl Fn(&MaintenanceReport) + Send + Sync + 'static) -> Self {
        self.on_report = Some(Box::new(hook));
        self
    }

    /// Does everything that is due now, in bounded batches, and returns the combined report.
    pub async fn run_once(&self) -> Result<MaintenanceReport, Error> {
        let mut sum = MaintenanceReport::default();
        loop {
            let report = self.run_batch().await?;
            let MaintenanceReport { lapsed, expired, died, forgotten, dead_letters_forgotten, next_due } =
                report;
            sum.lapsed += lapsed;
            sum.expired += expired;
            sum.died.extend(died);
            sum.forgotten += forgotten;
            sum.dead_letters_forgotten += dead_letters_forgotten;
            // The local clock may be ahead of the store's clock, which decides. If the store changed nothing, nothing
            // is due yet.
            let unchanged = lapsed + expired + forgotten == 0 && next_due == sum.next_due;
            sum.next_due = next_due;
            if unchanged || next_due.is_none_or(|due| due > self.shared.clock.now()) {
                return Ok(sum);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn run_batch(&self) -> Result<MaintenanceReport, Error> {
        let mut budget = Budget::new(ITEMS_MAX);
        budget.seen_keep = self.shared.settings.seen_keep;
        budget.dead_keep = self.shared.settings.dead_keep;
        budget.dead_letters = self.shared.dead_letters();
        let result = timeout(CALL_TIMEOUT, self.shared.store.maintain(budget)).await;
        let report = result.unwrap_or_else(|_| Err(no_response()))?;
        telemetry::maintenance_done(&report);
        if let Some(hook) = &self.on_report {
            hook(&report);
        }
        self.pause_failing_topics(&report).await;
        let &MaintenanceReport { lapsed, expired, forgotten, dead_letters_forgotten, .. } = &report;
        let store = &self.shared.name;
        if lapsed > 0 {
            info!(%store, reaped = lapsed, "reaped lapsed leases");
        }
        if dead_letters_forgotten > 0 {
            info!(%store, count = dead_letters_forgotten, "deleted dead letters past their retention");
        }
        if expired > 0 || forgotten > 0 {
            debug!(%store, expired, forgotten, "maintenance done");
        }
        Ok(report)
    }

    /// Pauses the delivery of topics with too many dead letters. If the store is unavailable, the first topic shows it;
    /// the others are tried again when more of their messages die.
    async fn pause_failing_topics(&self, report: &MaintenanceReport) {
        let Shared { name: store, pauses, auto_pause, .. } = &*self.shared;
        let mut failed = None;
        for Exceeded { namespace, topic, deaths, limit } in auto_pause.record(&report.died, Instant::now()) {
            let reason = format!("{deaths} messages died within a minute; the limit is {limit}");
            let pause = pauses.pause(namespace, &topic, Pause::Receiving, ("oncebox", &reason));
            let paused = timeout(CALL_TIMEOUT, pause).await.unwrap_or_else(|_| Err(no_response()));
            if paused.is_ok() {
                auto_pause.reset(namespace, &topic);
            }
            match paused {
                Ok((_, true)) => {
                    info!(target: "oncebox::audit", event = %format_args!("{namespace}.topic.paused"), %store, %topic, paused = "receiving", actor = "oncebox", %reason);
                    warn!(%store, %namespace, %topic, deaths, limit, "paused the delivery of a topic because too many of its messages died: fix the cause, then resume it");
                }
                Ok((_, false)) => {}
                Err(error) => {
                    let unavailable = error.kind() == ErrorKind::Unavailable;
                    failed.get_or_insert((0, namespace, topic, error)).0 += 1;
                    if unavailable {
                        break;
                    }
                }
            }
        }
        if let Some((topics, namespace, topic, error)) = failed {
            warn!(%store, topics, %namespace, %topic, %error, "cannot pause topics with too many dead letters, such as this one");
        }
    }

    /// Runs until `shutdown` is ready or the store is closed. Other failures are logged, reported by [`crate::Health`],
    /// and retried.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let span = info_span!(parent: None, "oncebox.maintenance", store = %self.shared.name);
        self.run_loop(shutdown).instrument(span).await;
    }

    async fn run_loop(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let monitor = self.shared.monitors.start("maintenance");
        let mut pace = Pace::new(self.shared.activity.clone());
        loop {
            let pause = tokio::select! {
                biased;
                () = &mut shutdown => return,
                pause = self.run_pass(&monitor, &mut pace) => pause,
            };
            let Some(pause) = pause else { return };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = pace.wait(pause) => {}
            }
        }
    }

    /// One pass, and how long to wait before the next; none if the store is closed.
    async fn run_pass(&self, monitor: &LoopMonitor, pace: &mut Pace) -> Option<Duration> {
        monitor.tick();
        // The jitter keeps processes that started together from running in step.
        let interval = pace.interval.mul_f64(0.75 + self.shared.fraction() / 4.0);
        match self.run_monitored(monitor).await {
            Ok(report) => {
                pace.record(&report);
                let due = report.next_due.map(|due| due.since(self.shared.clock.now()));
                Some(match due {
                    Some(Duration::ZERO) => CLOCK_SKEW_PAUSE,
                    Some(due) => due.min(interval),
                    None => interval,
                })
            }
            Err(error) if error.kind() == ErrorKind::Closed => None,
            Err(_) => Some(interval),
        }
    }

    /// Does everything that is due now. Returns whether nothing is due any more: what another process has locked is
    /// left, and so is everything while the store cannot be reached.
    pub(crate) async fn run_due(&self) -> bool {
        let monitor = self.shared.monitors.start("maintenance");
        let report = self.run_monitored(&monitor).await;
        report.is_ok_and(|report| report.next_due.is_none_or(|due| due > self.shared.clock.now()))
    }

    /// Does everything that is due now; logs a failure and reports it to the monitor.
    async fn run_monitored(&self, monitor: &LoopMonitor) -> Result<MaintenanceReport, Error> {
        let result = self.run_once().await;
        match &result {
            Ok(_) => {
                monitor.succeeded("maintain");
                self.warn_of_unhandled().await;
            }
            Err(error) if error.kind() == ErrorKind::Closed => {}
            Err(error) => {
                let is_first = monitor.failed("maintain", error);
                telemetry::call_failed("maintain");
                // Further failures show in health.
                if is_first {
                    warn!(store = %self.shared.name, %error, "maintenance failed, retrying");
                }
            }
        }
        result
    }

    /// Warns about each topic with ready messages that no worker of this process handles, at most once a minute
    /// (RULE-15).
    async fn warn_of_unhandled(&self) {
        if !self.shared.unhandled_warnings.is_due(Instant::now()) {
            return;
        }
        let call = timeout(CALL_TIMEOUT, async {
            self.shared.store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await
        });
        let Ok(Ok(ready)) = call.await else { return };
        let unhandled = ready.into_iter().filter(|topic| !self.shared.handled_topics.contains(topic));
        for topic in self.shared.unhandled_warnings.new_among(unhandled, Instant::now()) {
            warn!(store = %self.shared.name, %topic, "ready messages have no handler in this process");
        }
    }
}

fn no_response() -> Error {
    Error::new(ErrorKind::Unavailable, format!("the store did not respond within {CALL_TIMEOUT:?}"))
}

/// How often maintenance runs.
struct Pace {
    activity: Option<Activity>,
    /// The current longest pause.
    interval: Duration,
}

impl Pace {
    fn new(activity: Option<Activity>) -> Self {
        Self { activity, interval: INTERVAL }
    }

    /// Adjusts the interval to a report: pauses grow while there is nothing to do.
    fn record(&mut self, report: &MaintenanceReport) {
        let idle = report.lapsed + report.expired + report.forgotten == 0 && report.died.is_empty();
        let grows = idle && self.activity.is_some();
        self.interval = if grows { (self.interval * 2).min(IDLE_INTERVAL) } else { INTERVAL };
    }

    /// Waits for `pause`, or for [`INTERVAL`] at most once this process has used the store.
    async fn wait(&mut self, pause: Duration) {
        let (soon, end) = (Instant::now() + pause.min(INTERVAL), Instant::now() + pause);
        let active = async {
            let active = match &mut self.activity {
                Some(activity) => activity.changed().await.is_ok(),
                None => false,
            };
            if !active {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(end) => {}
            () = active => {
                self.interval = INTERVAL;
                tokio::time::sleep_until(soon).await;
            }
        }
    }
}
