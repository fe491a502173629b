//! Checks the settings of a worker, and runs the worker.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Error, ErrorKind, Invalid, Namespace, Topic};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;
use tracing::{Instrument, info, info_span, warn};

use super::engine::{Command, Engine, Mode};
use super::handle::WorkerHandle;
use super::options::{Options, Unhandled};
use super::rate::Rate;
use super::route::{ActiveRoute, RouteTable};
use super::summary::WorkerSummary;
use super::{StartHook, StopHook, Worker};
use crate::loop_monitor::LoopMonitor;
use crate::shared::Oncebox;
use crate::telemetry::TopicMetrics;

/// Maximum number of commands queued for a worker.
const COMMANDS_MAX: usize = 16;
/// How often, and after what pause, [`Worker::run_until_idle`] checks again for messages that are due, but locked by another
/// process: for about ten seconds.
const LOCKED_RETRIES_MAX: u32 = 200;
const LOCKED_RETRY: Duration = Duration::from_millis(50);

/// Running a worker.
impl<S> Worker<S> {
    /// Works until `shutdown` is ready, then stops gracefully and returns what was done.
    ///
    /// Fails at once if a setting is invalid, and later only if the store is closed or broken; temporary errors are
    /// retried.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<WorkerSummary, Error> {
        let prepared = self.prepare()?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let stop = async {
            shutdown.await;
            // If the worker has ended already, there is nothing to stop.
            let _ = commands.send(Command::Stop).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            summary = prepared.run(receiver, Mode::Working) => summary,
            () = stop => unreachable!("never completes"),
        }
    }

    /// Works until there is nothing left to claim: for tests and batch jobs. Messages that wait for a retry, for their
    /// due time or for the end of another worker's lease are left. Maintenance runs before the work, not beside it.
    pub async fn run_until_idle(self) -> Result<WorkerSummary, Error> {
        let prepared = self.prepare()?;
        let (_commands, receiver) = mpsc::channel(COMMANDS_MAX);
        prepared.run(receiver, Mode::UNTIL_IDLE).await
    }

    /// Claims up to one batch and handles it. Fails if the store does not respond, even if a retry might succeed.
    pub(crate) async fn run_pass(self) -> Result<WorkerSummary, Error> {
        let batch = self.options.batch;
        let prepared = self.prepare()?;
        let (_commands, receiver) = mpsc::channel(COMMANDS_MAX);
        prepared.run(receiver, Mode::pass(batch)).await
    }

    /// Fails if a setting is invalid.
    pub(crate) fn check(self) -> Result<(), Error> {
        self.prepare().map(drop)
    }

    /// Starts the worker in the background.
    pub fn start(self) -> Result<WorkerHandle, Error> {
        let prepared = self.prepare()?;
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let task = tokio::spawn(prepared.run(receiver, Mode::Working));
        Ok(WorkerHandle { commands, task })
    }
}

impl<S> Worker<S> {
    /// Checks all settings.
    fn prepare(mut self) -> Result<Prepared, Error> {
        self.options.check()?;
        if self.routes.is_empty() && self.options.unhandled == Unhandled::Leave {
            return Err(Invalid::new("handlers", "must not be empty: add at least one with `on`").into());
        }
        self.fit_transactions()?;
        let mut topics = HashSet::new();
        let mut routes = Vec::new();
        for (topic, handler, settings) in self.routes {
            settings.check()?;
            let topic = Topic::inbox(topic)?;
            if !topics.insert(topic.clone()) {
                let text = format!("topic `{topic}` has two handlers: a topic can have only one");
                return Err(Error::new(ErrorKind::Invalid, text));
            }
            routes.push(ActiveRoute {
                handler: self.layers.iter().fold(handler, |handler, layer| layer(handler)),
                metrics: TopicMetrics::new(topic.as_str()),
                rate: settings.per_second.map(Rate::new),
                topic,
                settings,
                running: 0,
                queued: 0,
            });
        }
        let own = |route: &ActiveRoute| route.is_limited() || route.settings.attempts_max.is_some();
        if self.options.unhandled != Unhandled::Leave && routes.iter().any(own) {
            let text = "cannot be combined with a concurrency, rate or attempt limit of a topic: a claim of all topics cannot treat one of \
                        them differently";
            return Err(Invalid::new("on_unhandled", text).into());
        }
        let mut routes = RouteTable::new(routes, self.options.attempts_max)?;
        if self.options.unhandled != Unhandled::Leave {
            routes.claim_all_topics(self.options.attempts_max);
        }
        let Self { oncebox, options, monitor, on_start, on_stop, .. } = self;
        let topics = topics.into_iter().collect();
        Ok(Prepared { oncebox, options, routes, topics, monitor, on_start, on_stop })
    }
}

impl<S> Worker<S> {
    /// Fails if a handler needs transactions that the store does not support, or has too few connections for.
    fn fit_transactions(&mut self) -> Result<(), Error> {
        let store = self.oncebox.shared().transactions.clone();
        let supported = store.as_ref().map(|store| store.kind());
        let mut limits = Vec::new();
        for (topic, _, settings) in &self.routes {
            let Some(wanted) = settings.transaction else { continue };
            if supported != Some(wanted) {
                let text = format!(
                    "the handler of topic `{topic}` needs a transaction that this store does not support: open one that does, \
                     such as `postgres://…`"
                );
                return Err(Error::new(ErrorKind::Unsupported, text));
            }
            limits.push(settings.concurrency);
        }
        match store {
            Some(store) if !limits.is_empty() => self.options.fit_transactions(&limits, store.limit()),
            _ => Ok(()),
        }
    }
}

/// A worker whose settings have been checked.
struct Prepared {
    oncebox: Oncebox,
    options: Options,
    routes: RouteTable,
    topics: Vec<Topic>,
    monitor: Option<Arc<LoopMonitor>>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

impl Prepared {
    pub(super) async fn run(
        self,
        mut commands: mpsc::Receiver<Command>,
        mode: Mode,
    ) -> Result<WorkerSummary, Error> {
        let Self { oncebox, options, routes, topics, monitor, on_start, on_stop } = self;
        if let Some(hook) = on_start {
            let failed = |error| Error::new(ErrorKind::Invalid, "the start hook failed").with_source(error);
            hook().await.map_err(failed)?;
        }
        let lasting = !mode.is_pass();
        if lasting {
            options.warn(oncebox.name());
            info!(store = oncebox.name(), concurrency = options.concurrency(), "worker started");
        }
        let shared = oncebox.shared();
        let all = options.unhandled != Unhandled::Leave;
        let _registration =
            (options.namespace == Namespace::Inbox).then(|| shared.handled_topics.add(topics, all));
        // Dropping the set ends the maintenance task when this function ends or its future is dropped.
        let mut maintenance = JoinSet::new();
        let maintained_first = options.maintenance && mode.is_until_idle();
        if options.maintenance && lasting && !maintained_first {
            maintenance.spawn(oncebox.maintenance().run(std::future::pending()));
        }
        let monitor = monitor.unwrap_or_else(|| shared.monitors.start("worker"));
        let span = info_span!(parent: None, "oncebox.worker", store = oncebox.name());
        let mut engine = Engine::new(shared, options, routes, monitor.clone(), mode);
        let summary = async {
            if maintained_first {
                run_until_idle(&mut engine, &mut commands, &oncebox).await
            } else {
                engine.run(&mut commands).await
            }
        };
        let summary = summary.instrument(span).await?;
        // The loop has ended: during the hook, it has no calls in flight and need not make progress.
        monitor.idle();
        drop((engine, monitor));
        if let Some(hook) = on_stop {
            hook(summary).await;
        }
        if lasting {
            info!(store = oncebox.name(), handled = summary.handled, "worker stopped");
        }
        Ok(summary)
    }
}

/// Does what is due, then works until there is nothing left to claim. Another process may be doing some of what is due:
/// messages that it has locked become claimable in a moment, so the worker tries again.
async fn run_until_idle(
    engine: &mut Engine,
    commands: &mut mpsc::Receiver<Command>,
    oncebox: &Oncebox,
) -> Result<WorkerSummary, Error> {
    let maintenance = oncebox.maintenance();
    for _ in 0..LOCKED_RETRIES_MAX {
        let complete = maintenance.run_due().await;
        let summary = engine.run(commands).await?;
        if complete {
            return Ok(summary);
        }
        sleep(LOCKED_RETRY).await;
        engine.reopen_until_idle();
    }
    warn!(store = oncebox.name(), "something is still due, but locked by another process: it is left");
    engine.run(commands).await
}
