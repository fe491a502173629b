//! The processor: runs stored commands through the mediator, on a [`Worker`].

mod options;

use std::any::TypeId;
use std::pin::{Pin, pin};
use std::sync::Arc;

use oncebox_core::{Error, Invalid, Namespace};
use tracing::info;

use super::contract::Contract;
use super::contracts::{CommandType, Contracts};
use super::execution::InboxExecution;
use super::mediator::{Mediator, unhandled};
use crate::loop_monitor::LoopMonitor;
use crate::shared::Oncebox;
use crate::transaction::unsupported;
use crate::worker::{BoxError, Context, Failure, Route, Worker, WorkerSummary};

pub use options::{ProcessorOptions, Retry};

/// The name of the processor loop in health reports.
const LOOP_NAME: &str = "commands";

type StartHook =
    Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync>;
type StopHook = Box<dyn FnOnce(WorkerSummary) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Runs stored commands: leases them, deserializes them by their contracts, runs them through the mediator, and settles
/// them. Any number of processors can work on one store; only one of them holds a command at a time.
///
/// Leases, heartbeats, retries, metrics and graceful shutdown work as in a [`Worker`].
pub struct Processor {
    oncebox: Oncebox,
    contracts: Arc<Contracts>,
    mediator: Mediator,
    options: ProcessorOptions,
    /// The contracts to handle, and the command type that each is read as.
    routes: Vec<(Contract, CommandType)>,
    transaction: Option<TypeId>,
    monitor: Arc<LoopMonitor>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

/// Marks the loop as idle in health reports when a pass ends, also by an error or a dropped future.
struct IdleOnDrop<'p>(&'p LoopMonitor);

impl Drop for IdleOnDrop<'_> {
    fn drop(&mut self) {
        self.0.idle();
    }
}

impl Processor {
    /// Creates a processor. Fails if an option is out of bounds, a contract has no handler, or the version after an
    /// upcaster is not registered.
    pub fn new(
        oncebox: &Oncebox,
        contracts: &Contracts,
        mediator: &Mediator,
        options: ProcessorOptions,
    ) -> Result<Self, Error> {
        let routes = contracts.readable()?;
        if routes.is_empty() {
            return Err(Invalid::new("contracts", "must not be empty: register at least one").into());
        }
        if let Some((_, command_type)) =
            routes.iter().find(|(_, command_type)| !mediator.handles(command_type.id))
        {
            return Err(unhandled(command_type.name));
        }
        let monitor = oncebox.shared().monitors.start(LOOP_NAME);
        monitor.idle();
        let processor = Self {
            oncebox: oncebox.clone(),
            contracts: Arc::new(contracts.clone()),
            mediator: mediator.clone(),
            options,
            routes,
            transaction: None,
            monitor,
            on_start: None,
            on_stop: None,
        };
        processor.worker().check()?;
        Ok(processor)
    }

    /// Runs every command in a transaction of type `T`, which its handlers get from
    /// [`Execution::transaction`](super::Execution::transaction): their writes in it and the command's completion
    /// commit together.
    ///
    /// For PostgreSQL `T` is `oncebox::postgres::PgTransaction`. Fails if the store has no transactions of this type,
    /// or has fewer connections than the processor's concurrency.
    pub fn in_transactions<T: 'static>(mut self) -> Result<Self, Error> {
        let kind = TypeId::of::<T>();
        let known = self.oncebox.shared().transactions.as_ref().map(|store| store.kind());
        if known != Some(kind) {
            return Err(unsupported());
        }
        self.transaction = Some(kind);
        self.worker().check()?;
        Ok(self)
    }

    /// Sets a hook that runs before the first pass of [`Self::run`], after the start-up delay. If it fails, no command
    /// runs.
    #[must_use]
    pub fn on_start<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.on_start = Some(Box::new(|| Box::pin(hook())));
        self
    }

    /// Sets a hook that runs after the last command of [`Self::run`] is settled. It does not run if `run` fails.
    #[must_use]
    pub fn on_stop<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(WorkerSummary) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_stop = Some(Box::new(|summary| Box::pin(hook(summary))));
        self
    }

    /// Runs one pass: leases at most one batch of due commands, runs them, and returns counts of their outcomes.
    ///
    /// A failing command does not fail the pass; an unreachable store does. Dropping the future does not release leased
    /// commands: they are delivered again when their leases end.
    pub async fn process_pending(&self) -> Result<WorkerSummary, Error> {
        let _idle = IdleOnDrop(&self.monitor);
        self.worker().run_pass().await
    }

    /// Runs commands as they become due until `shutdown` completes, then stops gracefully and returns counts of their
    /// outcomes.
    ///
    /// Fails only if the store is closed or corrupt. Transient errors are retried, and health reports show them in the
    /// meantime.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<WorkerSummary, Error> {
        let mut shutdown = pin!(shutdown);
        if !self.options.enabled {
            info!(store = self.oncebox.name(), "processor disabled");
            shutdown.await;
            return Ok(WorkerSummary::default());
        }
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(WorkerSummary::default()),
            () = tokio::time::sleep(self.options.startup_delay) => {}
        }
        let mut worker = self.worker();
        if let Some(hook) = self.on_start.take() {
            worker = worker.on_start(hook);
        }
        if let Some(hook) = self.on_stop.take() {
            worker = worker.on_stop(hook);
        }
        worker.run(shutdown).await
    }

    fn worker(&self) -> Worker {
        let ProcessorOptions { retry, poll_interval, .. } = self.options;
        let mut worker = Worker::new(&self.oncebox)
            .in_namespace(Namespace::Commands, self.monitor.clone())
            .batch(self.options.batch)
            .lease(self.options.lease)
            .attempts_max(retry.attempts_max)
            .backoff(retry.backoff)
            .poll_interval(poll_interval, poll_interval)
            .stop_budget(self.options.stop_budget)
            .on_unhandled(self.options.unregistered);
        if let Some(concurrency) = self.options.concurrency {
            worker = worker.concurrency(concurrency);
        }
        if let Some(owner) = self.options.owner {
            worker = worker.owner(owner);
        }
        if let Some(timeout) = self.options.timeout {
            worker = worker.timeout(timeout);
        }
        self.routes.iter().fold(worker, |worker, (contract, command_type)| {
            worker.route(self.route(contract.clone(), *command_type))
        })
    }

    fn route(&self, contract: Contract, command_type: CommandType) -> Route {
        let (contracts, mediator, transaction) =
            (self.contracts.clone(), self.mediator.clone(), self.transaction);
        let topic = contract.to_string();
        let run = move |context: Context| {
            let (contracts, mediator, contract) = (contracts.clone(), mediator.clone(), contract.clone());
            async move {
                let command = contracts.read(&contract, &context.payload())?;
                let origin = Some(Arc::new(InboxExecution { context, transaction }));
                mediator.run((command_type.id, command_type.name), command, origin).await?;
                Ok::<(), Failure>(())
            }
        };
        let route = Route::new(topic, run);
        match transaction {
            Some(kind) => route.in_transaction(kind),
            None => route,
        }
    }
}
