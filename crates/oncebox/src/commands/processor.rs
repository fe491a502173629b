//! Processing: running stored commands through the mediator, on the library's worker.

mod options;

use std::any::TypeId;
use std::pin::{Pin, pin};
use std::sync::Arc;

use oncebox_core::{Error, Invalid, Namespace};
use tracing::info;

use super::contract::Contract;
use super::contracts::{Contracts, Registered};
use super::execution::Replay;
use super::mediator::{Mediator, unhandled};
use crate::health::Pulse;
use crate::shared::Oncebox;
use crate::transaction::none;
use crate::worker::{BoxError, Context, Failure, Route, Stopped, Worker};

pub use options::{ProcessorOptions, Retry};

/// Its name in health.
const PULSE: &str = "commands";

type StartHook =
    Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send + Sync>;
type StopHook = Box<dyn FnOnce(Stopped) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Runs stored commands: leases them, reads them by their contracts, runs them through the mediator, and tells the store how it
/// went. Any number of processors may work on one store; none has a command that another holds.
///
/// Leases, heartbeats, retries, metrics and the graceful stop are those of a [`Worker`].
pub struct Processor {
    oncebox: Oncebox,
    contracts: Arc<Contracts>,
    mediator: Mediator,
    options: ProcessorOptions,
    /// The topics to be handled, and the types that their commands are read as.
    routes: Vec<(Contract, Registered)>,
    transaction: Option<TypeId>,
    pulse: Arc<Pulse>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

/// Tells health that nobody turns the loop, however a pass ends.
struct Rest<'p>(&'p Pulse);

impl Drop for Rest<'_> {
    fn drop(&mut self) {
        self.0.rests();
    }
}

impl Processor {
    /// A processor. Refuses options that are out of bounds, contracts without a handler, and upcasters that lead nowhere.
    pub fn new(
        oncebox: &Oncebox,
        contracts: &Contracts,
        mediator: &Mediator,
        options: ProcessorOptions,
    ) -> Result<Self, Error> {
        let routes = contracts.readable()?;
        if routes.is_empty() {
            return Err(Invalid::new("contracts", "are none: register at least one").into());
        }
        if let Some((_, registered)) = routes.iter().find(|(_, registered)| !mediator.handles(registered.id))
        {
            return Err(unhandled(registered.name));
        }
        let pulse = oncebox.shared().pulses.start(PULSE);
        pulse.rests();
        let processor = Self {
            oncebox: oncebox.clone(),
            contracts: Arc::new(contracts.clone()),
            mediator: mediator.clone(),
            options,
            routes,
            transaction: None,
            pulse,
            on_start: None,
            on_stop: None,
        };
        processor.worker().check()?;
        Ok(processor)
    }

    /// Runs every command in a transaction of type `T` that its handlers can ask for
    /// ([`Execution::transaction`](super::Execution::transaction)): what they write there and the command's completion commit
    /// together. For PostgreSQL `T` is `oncebox::postgres::PgTransaction`; refused where the store has none of this type, or fewer
    /// connections than commands would run at once.
    pub fn in_transactions<T: 'static>(mut self) -> Result<Self, Error> {
        let kind = TypeId::of::<T>();
        let known = self.oncebox.shared().transactions.as_ref().map(|store| store.kind());
        if known != Some(kind) {
            return Err(none());
        }
        self.transaction = Some(kind);
        self.worker().check()?;
        Ok(self)
    }

    /// Runs before the first pass of [`Self::run`], after the start-up delay; if it fails, nothing is run.
    #[must_use]
    pub fn on_start<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.on_start = Some(Box::new(|| Box::pin(hook())));
        self
    }

    /// Runs after the last command of [`Self::run`] was settled; not if that ends by an error.
    #[must_use]
    pub fn on_stop<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(Stopped) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_stop = Some(Box::new(|stopped| Box::pin(hook(stopped))));
        self
    }

    /// One pass: leases up to a batch of commands that are due, runs them, and tells what became of them.
    ///
    /// A command that fails is no error of the pass; a store that does not answer is. Dropping this gives nothing back: what was
    /// leased comes again when its leases end.
    pub async fn process_pending(&self) -> Result<Stopped, Error> {
        let _rest = Rest(&self.pulse);
        self.worker().run_pass().await
    }

    /// Runs commands as they become due, until `shutdown` is ready; then stops gracefully and tells what was done.
    ///
    /// Fails only if the store is closed or broken: what can heal is tried again, and shows in health meanwhile.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<Stopped, Error> {
        let mut shutdown = pin!(shutdown);
        if !self.options.enabled {
            info!(store = self.oncebox.name(), "the processor is disabled");
            shutdown.await;
            return Ok(Stopped::default());
        }
        tokio::select! {
            biased;
            () = &mut shutdown => return Ok(Stopped::default()),
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
            .of(Namespace::Commands, self.pulse.clone())
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
        self.routes.iter().fold(worker, |worker, (contract, registered)| {
            worker.route(self.route(contract.clone(), *registered))
        })
    }

    fn route(&self, contract: Contract, registered: Registered) -> Route {
        let (contracts, mediator, transaction) =
            (self.contracts.clone(), self.mediator.clone(), self.transaction);
        let topic = contract.to_string();
        let run = move |context: Context| {
            let (contracts, mediator, contract) = (contracts.clone(), mediator.clone(), contract.clone());
            async move {
                let command = contracts.read(&contract, &context.payload())?;
                let scene = Some(Arc::new(Replay { context, transaction }));
                mediator.run((registered.id, registered.name), command, scene).await?;
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
