//! From a worker as it was set up to one that runs.

use std::collections::HashSet;
use std::sync::Arc;

use oncebox_core::{Error, Invalid, Kind, Namespace, Topic};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::{Instrument, info, info_span};

use super::engine::{Command, Engine, Mode};
use super::options::{Options, Unhandled};
use super::rate::Rate;
use super::route::{Lane, Lanes};
use super::running::{Running, Stopped};
use super::{StartHook, StopHook, Worker};
use crate::health::Pulse;
use crate::shared::Oncebox;
use crate::telemetry::TopicMetrics;

/// Commands that wait for a worker, at most.
const COMMANDS_MAX: usize = 16;

/// Running.
impl<S> Worker<S> {
    /// Works until `shutdown` is ready, then stops gracefully and tells what was done.
    ///
    /// Fails at once if it is set up wrongly, and later only if the store is closed or broken: what can heal is tried
    /// again.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<Stopped, Error> {
        let prepared = self.prepare()?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let stop = async {
            shutdown.await;
            // If it has ended already, there is nothing to stop.
            let _ = commands.send(Command::Stop).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            stopped = prepared.run(receiver, Mode::Working) => stopped,
            () = stop => unreachable!("waits for ever"),
        }
    }

    /// Works until nothing is to be had any more: for tests, and for work that comes in heaps. What waits for a retry, for
    /// its due time or for the end of another worker's lease is left.
    pub async fn run_until_idle(self) -> Result<Stopped, Error> {
        let prepared = self.prepare()?;
        let (_commands, receiver) = mpsc::channel(COMMANDS_MAX);
        prepared.run(receiver, Mode::UNTIL_IDLE).await
    }

    /// Claims up to a batch and works it off. Fails if the store does not answer, even if it might later.
    pub(crate) async fn run_pass(self) -> Result<Stopped, Error> {
        let batch = self.options.batch;
        let prepared = self.prepare()?;
        let (_commands, receiver) = mpsc::channel(COMMANDS_MAX);
        prepared.run(receiver, Mode::pass(batch)).await
    }

    /// Refuses what is set up wrongly.
    pub(crate) fn check(self) -> Result<(), Error> {
        self.prepare().map(drop)
    }

    /// Works in the background.
    pub fn start(self) -> Result<Running, Error> {
        let prepared = self.prepare()?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let task = tokio::spawn(prepared.run(receiver, Mode::Working));
        Ok(Running { commands, task })
    }
}

impl<S> Worker<S> {
    /// Checks everything that was set.
    fn prepare(mut self) -> Result<Prepared, Error> {
        self.options.check()?;
        if self.routes.is_empty() && self.options.unhandled == Unhandled::Leave {
            return Err(Invalid::new("handlers", "are none: add at least one with `on`").into());
        }
        self.fit_transactions()?;
        let mut topics = HashSet::new();
        let mut lanes = Vec::new();
        for (topic, endpoint, settings) in self.routes {
            settings.check()?;
            let topic = Topic::inbox(topic)?;
            if !topics.insert(topic.clone()) {
                let text = format!("topic `{topic}` has two handlers: a topic has one");
                return Err(Error::new(Kind::Invalid, text));
            }
            lanes.push(Lane {
                endpoint: self.layers.iter().fold(endpoint, |endpoint, layer| layer(endpoint)),
                metrics: TopicMetrics::new(topic.as_str()),
                rate: settings.per_second.map(Rate::new),
                topic,
                settings,
                running: 0,
                queued: 0,
            });
        }
        let own = |lane: &Lane| lane.is_limited() || lane.settings.attempts_max.is_some();
        if self.options.unhandled != Unhandled::Leave && lanes.iter().any(own) {
            let text = "together with a limit, a rate or a number of attempts of a topic is not possible: a claim of every topic \
                        cannot treat one of them otherwise";
            return Err(Invalid::new("on_unhandled", text).into());
        }
        let mut lanes = Lanes::new(lanes, self.options.attempts_max)?;
        if self.options.unhandled != Unhandled::Leave {
            lanes.take_all(self.options.attempts_max);
        }
        let Self { oncebox, options, pulse, on_start, on_stop, .. } = self;
        let topics = topics.into_iter().collect();
        Ok(Prepared { oncebox, options, lanes, topics, pulse, on_start, on_stop })
    }
}

impl<S> Worker<S> {
    /// Refuses transactions that the store does not have, or has too few connections for.
    fn fit_transactions(&mut self) -> Result<(), Error> {
        let store = self.oncebox.shared().transactions.clone();
        let known = store.as_ref().map(|store| store.kind());
        let mut limits = Vec::new();
        for (topic, _, settings) in &self.routes {
            let Some(wanted) = settings.transaction else { continue };
            if known != Some(wanted) {
                let text = format!(
                    "the handler of topic `{topic}` asks for a transaction that this store does not have: open one that does, \
                     such as `postgres://…`"
                );
                return Err(Error::new(Kind::Unsupported, text));
            }
            limits.push(settings.concurrency);
        }
        match store {
            Some(store) if !limits.is_empty() => self.options.fit_transactions(&limits, store.limit()),
            _ => Ok(()),
        }
    }
}

/// A worker that is set up rightly.
struct Prepared {
    oncebox: Oncebox,
    options: Options,
    lanes: Lanes,
    topics: Vec<Topic>,
    pulse: Option<Arc<Pulse>>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

impl Prepared {
    pub(super) async fn run(self, commands: mpsc::Receiver<Command>, mode: Mode) -> Result<Stopped, Error> {
        let Self { oncebox, options, lanes, topics, pulse, on_start, on_stop } = self;
        if let Some(hook) = on_start {
            let refused = |error| Error::new(Kind::Invalid, "the start hook failed").with_source(error);
            hook().await.map_err(refused)?;
        }
        let lasting = !mode.is_pass();
        if lasting {
            options.warn(oncebox.name());
            info!(store = oncebox.name(), concurrency = options.concurrency(), "the worker starts");
        }
        let shared = oncebox.shared();
        let all = options.unhandled != Unhandled::Leave;
        let _handling = (options.namespace == Namespace::Inbox).then(|| shared.handled.add(topics, all));
        // Dropped, and with it ended, when this ends or is dropped.
        let mut upkeep = JoinSet::new();
        if options.upkeep && lasting {
            upkeep.spawn(oncebox.upkeep().run(std::future::pending()));
        }
        let pulse = pulse.unwrap_or_else(|| shared.pulses.start("worker"));
        let span = info_span!(parent: None, "oncebox.worker", store = oncebox.name());
        let stopped = Engine::new(shared, options, lanes, pulse, mode).run(commands).instrument(span).await?;
        if let Some(hook) = on_stop {
            hook(stopped).await;
        }
        if lasting {
            info!(store = oncebox.name(), handled = stopped.handled, "the worker has stopped");
        }
        Ok(stopped)
    }
}
