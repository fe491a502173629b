//! Upkeep: what time makes necessary, done when it is due.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncebox_core::{Budget, Error, Kind, Namespace, ReadyTopics, Topic, Upkept};
use tokio::time::Instant;
use tracing::{Instrument, debug, info, info_span, warn};

use crate::health::Pulse;
use crate::shared::Shared;
use crate::stirring::Stirred;
use crate::telemetry;

/// Events and messages that one call deals with, at most.
const ITEMS_MAX: u32 = 1_000;
/// Any call may bring up an earlier moment than the store last named, so it is asked at least so often.
const INTERVAL: Duration = Duration::from_secs(1);
/// A store that others share is asked less and less often while this process does nothing to it, down to this: the others see
/// to what they do, and claims to what becomes due.
const IDLE_INTERVAL: Duration = Duration::from_secs(20);
/// How often a topic without a handler is looked for, and warned about.
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
pub struct Upkeep {
    shared: Arc<Shared>,
    told: Option<Listener>,
}

type Listener = Box<dyn Fn(&Upkept) + Send + Sync>;

impl Upkeep {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, told: None }
    }

    /// Tells what each piece did, for metrics say.
    #[must_use]
    pub fn on_upkept(mut self, told: impl Fn(&Upkept) + Send + Sync + 'static) -> Self {
        self.told = Some(Box::new(told));
        self
    }

    /// Does what is due now, in bounded pieces, and gives back the sum.
    pub async fn run_once(&self) -> Result<Upkept, Error> {
        let mut sum = Upkept::default();
        loop {
            let upkept = self.piece().await?;
            let Upkept { lapsed, expired, died, forgotten, dead_letters_forgotten, next_due } = upkept;
            sum.lapsed += lapsed;
            sum.expired += expired;
            sum.died.extend(died);
            sum.forgotten += forgotten;
            sum.dead_letters_forgotten += dead_letters_forgotten;
            // Our clock may be ahead of the store's, which decides: what it leaves as it was is not due yet.
            let unmoved = lapsed + expired + forgotten == 0 && next_due == sum.next_due;
            sum.next_due = next_due;
            if unmoved || next_due.is_none_or(|due| due > self.shared.clock.now()) {
                return Ok(sum);
            }
            tokio::task::yield_now().await;
        }
    }

    async fn piece(&self) -> Result<Upkept, Error> {
        let mut budget = Budget::new(ITEMS_MAX);
        budget.seen_keep = self.shared.settings.seen_keep;
        budget.dead_keep = self.shared.settings.dead_keep;
        budget.dead_letters = self.shared.dead_letters();
        let answer = tokio::time::timeout(CALL_TIMEOUT, self.shared.store.upkeep(budget)).await;
        let upkept = answer.unwrap_or_else(|_| {
            Err(Error::new(Kind::Unavailable, format!("the store did not answer within {CALL_TIMEOUT:?}")))
        })?;
        telemetry::upkept(&upkept);
        if let Some(told) = &self.told {
            told(&upkept);
        }
        let &Upkept { lapsed, expired, forgotten, dead_letters_forgotten, .. } = &upkept;
        let store = &self.shared.name;
        if lapsed > 0 {
            info!(%store, reaped = lapsed, "reaped leases that had ended");
        }
        if dead_letters_forgotten > 0 {
            info!(%store, count = dead_letters_forgotten, "dead letters were over their retention, and are gone");
        }
        if expired > 0 || forgotten > 0 {
            debug!(%store, expired, forgotten, "upkept");
        }
        Ok(upkept)
    }

    /// Runs until `shutdown` is ready, or the store is closed. Other failures are logged, show in health, and are tried
    /// again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let span = info_span!(parent: None, "oncebox.upkeep", store = %self.shared.name);
        self.keep_up(shutdown).instrument(span).await;
    }

    async fn keep_up(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let pulse = self.shared.pulses.start("upkeep");
        let mut pace = Pace::new(self.shared.stirred.clone());
        loop {
            let pause = tokio::select! {
                biased;
                () = &mut shutdown => return,
                pause = self.round(&pulse, &mut pace) => pause,
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
    async fn round(&self, pulse: &Pulse, pace: &mut Pace) -> Option<Duration> {
        pulse.turned();
        // Processes that started together drift apart.
        let usual = pace.interval.mul_f64(0.75 + self.shared.fraction() / 4.0);
        match self.run_once().await {
            Ok(upkept) => {
                pulse.passed("upkeep");
                pace.passed(&upkept);
                self.warn_of_unhandled().await;
                let due = upkept.next_due.map(|due| due.since(self.shared.clock.now()));
                Some(match due {
                    Some(Duration::ZERO) => CLOCKS_APART,
                    Some(due) => due.min(usual),
                    None => usual,
                })
            }
            Err(error) if error.kind() == Kind::Closed => None,
            Err(error) => {
                let is_first = pulse.failed("upkeep", &error);
                telemetry::call_failed("upkeep");
                // One that goes on failing shows in health.
                if is_first {
                    warn!(store = %self.shared.name, %error, "upkeep failed, and is repeated");
                }
                Some(usual)
            }
        }
    }

    /// Once a minute per ready topic that nobody here handles (SPEC rule 15).
    async fn warn_of_unhandled(&self) {
        if !self.shared.unhandled.is_due(Instant::now()) {
            return;
        }
        let call = tokio::time::timeout(CALL_TIMEOUT, async {
            self.shared.store.ready_topics(&ReadyTopics::first(Namespace::Inbox)).await
        });
        let Ok(Ok(ready)) = call.await else { return };
        let unhandled = ready.into_iter().filter(|topic| !self.shared.handled.contains(topic));
        for topic in self.shared.unhandled.new_among(unhandled, Instant::now()) {
            warn!(store = %self.shared.name, %topic, "messages are ready that no worker of this process handles");
        }
    }
}

/// How often upkeep passes.
struct Pace {
    stirred: Option<Stirred>,
    /// The longest pause at present.
    interval: Duration,
}

impl Pace {
    fn new(stirred: Option<Stirred>) -> Self {
        Self { stirred, interval: INTERVAL }
    }

    /// Pauses grow while there is nothing to do.
    fn passed(&mut self, upkept: &Upkept) {
        let idle = upkept.lapsed + upkept.expired + upkept.forgotten == 0 && upkept.died.is_empty();
        let grows = idle && self.stirred.is_some();
        self.interval = if grows { (self.interval * 2).min(IDLE_INTERVAL) } else { INTERVAL };
    }

    /// Waits for so long, but no longer than usual once this process has done something to the store.
    async fn wait(&mut self, pause: Duration) {
        let (soon, end) = (Instant::now() + pause.min(INTERVAL), Instant::now() + pause);
        let heard = async {
            let heard = match &mut self.stirred {
                Some(stirred) => stirred.changed().await.is_ok(),
                None => false,
            };
            if !heard {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            () = tokio::time::sleep_until(end) => {}
            () = heard => {
                self.interval = INTERVAL;
                tokio::time::sleep_until(soon).await;
            }
        }
    }
}

/// What this process has warned about and when: no more topics than one listing has, each for a minute.
#[derive(Default)]
pub(crate) struct Warnings(Mutex<Given>);

#[derive(Default)]
struct Given {
    topics: HashMap<Topic, Instant>,
    next: Option<Instant>,
}

impl Warnings {
    fn lock(&self) -> MutexGuard<'_, Given> {
        // Nothing here can panic halfway: what is found is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it is time to look again; whoever asks then looks for all. Workers that start together have a moment to say
    /// what they handle.
    fn is_due(&self, now: Instant) -> bool {
        let mut given = self.lock();
        let due = given.next.is_some_and(|next| next <= now);
        if due || given.next.is_none() {
            given.next = Some(now + if due { WARN_INTERVAL } else { INTERVAL });
        }
        due
    }

    /// Those of the topics that were not warned about within the last minute.
    fn new_among(&self, topics: impl Iterator<Item = Topic>, now: Instant) -> Vec<Topic> {
        let mut given = self.lock();
        given.topics.retain(|_, at| now.duration_since(*at) < WARN_INTERVAL);
        let new: Vec<_> = topics.filter(|topic| !given.topics.contains_key(topic)).collect();
        given.topics.extend(new.iter().map(|topic| (topic.clone(), now)));
        new
    }
}
