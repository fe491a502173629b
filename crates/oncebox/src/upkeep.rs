//! Upkeep: what time makes necessary, done when it is due.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Budget, Error, Namespace, ReadyTopics, Topic, Upkept};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use crate::health::Pulse;
use crate::shared::Shared;
use crate::telemetry;

/// Events and messages that one call deals with, at most.
const ITEMS_MAX: u32 = 1_000;
/// Any call may bring up an earlier moment than the store last named, so it is asked at least so often.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often a topic without a handler is warned about.
const WARN_INTERVAL: Duration = Duration::from_secs(60);
/// How long to wait for what is due by our clock and not yet by the store's.
const CLOCKS_APART: Duration = Duration::from_millis(100);
/// The store has so long to answer.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Ends lapsed leases, expires, forgets what is no longer held, wakes workers for what has become due, and warns of ready
/// topics that no worker of this process handles.
///
/// Safe to run in every process at once. A [`crate::Worker`] brings its own; run it by hand where messages are only taken
/// in.
pub struct Upkeep(Arc<Shared>);

impl Upkeep {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// Does what is due now, in bounded pieces, and gives back the sum.
    pub async fn run_once(&self) -> Result<Upkept, Error> {
        let mut sum = Upkept::default();
        loop {
            let Upkept { lapsed, expired, forgotten, next_due } = self.piece().await?;
            sum.lapsed += lapsed;
            sum.expired += expired;
            sum.forgotten += forgotten;
            // Our clock may be ahead of the store's, which decides: what it leaves as it was is not due yet.
            let unmoved = lapsed + expired + forgotten == 0 && next_due == sum.next_due;
            sum.next_due = next_due;
            if unmoved || next_due.is_none_or(|due| due > self.0.clock.now()) {
                return Ok(sum);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn piece(&self) -> Result<Upkept, Error> {
        let mut budget = Budget::new(ITEMS_MAX);
        budget.seen_keep = self.0.settings.seen_keep;
        budget.dead_keep = self.0.settings.dead_keep;
        let upkept = self.0.store.upkeep(budget).await?;
        telemetry::upkept(&upkept);
        let Upkept { lapsed, expired, forgotten, .. } = upkept;
        let store = &self.0.name;
        if lapsed > 0 {
            info!(%store, reaped = lapsed, "reaped leases that had ended");
        }
        if expired > 0 || forgotten > 0 {
            debug!(%store, expired, forgotten, "upkept");
        }
        Ok(upkept)
    }

    /// Runs until `shutdown` is ready. Failures are logged, show in health, and are tried again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let pulse = self.0.pulses.start("upkeep");
        let mut warnings = Warnings::default();
        loop {
            let round = tokio::time::timeout(CALL_TIMEOUT, self.round(&pulse, &mut warnings));
            let pause = tokio::select! {
                biased;
                () = &mut shutdown => return,
                pause = round => pause.unwrap_or(INTERVAL),
            };
            tokio::select! {
                biased;
                () = &mut shutdown => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// One pass, and how long to wait before the next.
    async fn round(&self, pulse: &Pulse, warnings: &mut Warnings) -> Duration {
        pulse.turned();
        // Processes that started together drift apart.
        let usual = INTERVAL.mul_f64(0.75 + self.0.fraction() / 4.0);
        match self.run_once().await {
            Ok(upkept) => {
                pulse.passed();
                self.warn_of_unhandled(warnings).await;
                let due = upkept.next_due.map(|due| due.since(self.0.clock.now()));
                match due {
                    Some(Duration::ZERO) => CLOCKS_APART,
                    Some(due) => due.min(usual),
                    None => usual,
                }
            }
            Err(error) => {
                pulse.failed(&error);
                telemetry::call_failed("upkeep");
                warn!(store = %self.0.name, %error, "upkeep failed");
                usual
            }
        }
    }

    /// Once a minute per ready topic that nobody here handles (SPEC rule 15).
    async fn warn_of_unhandled(&self, warnings: &mut Warnings) {
        let now = Instant::now();
        if warnings.next.is_some_and(|next| next > now) {
            return;
        }
        warnings.next = Some(now + INTERVAL);
        let Ok(ready) = self.0.store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await else {
            return;
        };
        warnings.given.retain(|_, given| now.duration_since(*given) < WARN_INTERVAL);
        for topic in ready {
            if !self.0.handled.contains(&topic) && !warnings.given.contains_key(&topic) {
                warn!(store = %self.0.name, %topic, "messages are ready that no worker of this process handles");
                warnings.given.insert(topic, now);
            }
        }
    }
}

/// What was warned about when: no more topics than one listing has, each for a minute.
#[derive(Default)]
struct Warnings {
    given: HashMap<Topic, Instant>,
    next: Option<Instant>,
}
