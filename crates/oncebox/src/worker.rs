//! The worker: claims messages, runs their handlers, and settles the deliveries.

mod attempt;
mod calls;
mod context;
mod engine;
mod extract;
mod failure;
mod handle;
mod handler;
mod in_flight;
mod options;
mod prepare;
mod rate;
mod route;
mod service;
mod summary;
mod transaction;
mod transaction_slot;
mod verdict;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Backoff, Namespace, Owner};
use tower_layer::Layer;
use tower_service::Service;

use crate::loop_monitor::LoopMonitor;
use crate::shared::Oncebox;
use options::Options;
use service::AnyLayer;

pub use context::Context;
pub(crate) use extract::json_error_text;
pub use extract::{Extract, FromState, Json, Rejection, State, Text};
pub use failure::{BoxError, Failure, FailureAction, HandlerError};
pub use handle::WorkerHandle;
pub use handler::{Handler, HandlerFn, IntoResult};
pub use oncebox_core::{Growth, Jitter};
pub use options::Unhandled;
pub use route::Route;
pub use service::HandlerService;
pub use summary::WorkerSummary;
pub use transaction::HandlerTx;

type StartHook = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send>;
type StopHook = Box<dyn FnOnce(WorkerSummary) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Runs handlers for the messages of an inbox, by topic. Configure it, then call [`Worker::start`] or [`Worker::run`].
///
/// ```
/// # use std::time::Duration;
/// use oncebox::{worker::Route, Bytes, Context, Failure, Oncebox, State, Worker};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), oncebox::Error> {
/// # let oncebox = Oncebox::open("memory:").await?;
/// async fn import(State(region): State<&'static str>, file: Bytes, context: Context) -> Result<(), Failure> {
///     println!("{region}: {} bytes of {}, delivery {}", file.len(), context.id(), context.delivery());
///     Ok(())
/// }
///
/// let worker = Worker::new(&oncebox)
///     .with_state("eu")
///     .on("file.arrived", import)
///     .route(Route::new("file.huge", import).concurrency(1).timeout(Duration::from_secs(600)))
///     .concurrency(32)
///     .start()?;
/// // …
/// worker.stop().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a worker does nothing until it is run"]
pub struct Worker<S = ()> {
    oncebox: Oncebox,
    state: S,
    routes: Vec<(String, handler::DynHandler, route::RouteSettings)>,
    layers: Vec<AnyLayer>,
    options: Options,
    /// A new one if not set.
    monitor: Option<Arc<LoopMonitor>>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

impl Worker {
    /// Creates a worker without handlers.
    pub fn new(oncebox: &Oncebox) -> Self {
        Self {
            oncebox: oncebox.clone(),
            state: (),
            routes: Vec::new(),
            layers: Vec::new(),
            options: Options::default(),
            monitor: None,
            on_start: None,
            on_stop: None,
        }
    }

    /// Sets the state of the worker. Handlers added after this call can extract it with [`State`].
    pub fn with_state<S: Clone + Send + Sync + 'static>(self, state: S) -> Worker<S> {
        let Self { oncebox, routes, layers, options, monitor, on_start, on_stop, .. } = self;
        Worker { oncebox, state, routes, layers, options, monitor, on_start, on_stop }
    }

    /// Claims messages of another namespace, and uses a monitor that outlives the worker.
    pub(crate) fn in_namespace(mut self, namespace: Namespace, monitor: Arc<LoopMonitor>) -> Self {
        self.options.namespace = namespace;
        self.monitor = Some(monitor);
        self
    }
}

/// Handlers.
impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// Handles the messages of a topic with an async function. Topics are case-sensitive, and each has one handler.
    ///
    /// Use `tokio::task::spawn_blocking` for long computations and blocking calls: on the runtime's threads they would
    /// delay other handlers and the heartbeats that extend their leases.
    pub fn on<Arguments>(self, topic: impl Into<String>, handler: impl HandlerFn<S, Arguments>) -> Self {
        self.route(Route::new(topic, handler))
    }

    /// Handles the messages of the object's topic with it.
    pub fn handler(self, handler: impl Handler) -> Self {
        self.route(Route::object(handler))
    }

    /// Adds a handler with settings for its topic.
    pub fn route(mut self, route: Route<S>) -> Self {
        let handler = (route.make)(self.state.clone());
        self.routes.push((route.topic, handler, route.settings));
        self
    }

    /// Wraps every handler in a tower layer, including handlers added later. The layer that is added last is the
    /// outermost.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService> + Send + Sync + 'static,
        L::Service: Service<Context, Response = ()> + Clone + Send + Sync + 'static,
        <L::Service as Service<Context>>::Error: Into<BoxError>,
        <L::Service as Service<Context>>::Future: Send,
    {
        self.layers.push(Box::new(move |handler| service::wrap(&layer, handler)));
        self
    }

    /// Sets what happens to messages whose topic has no handler in this worker. By default, they are left for other
    /// workers. Cannot be combined with limits of topics.
    pub fn on_unhandled(mut self, unhandled: Unhandled) -> Self {
        self.options.unhandled = unhandled;
        self
    }

    /// Sets a hook that runs before the first message is claimed. If it fails, the worker does not start.
    pub fn on_start<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.on_start = Some(Box::new(|| Box::pin(hook())));
        self
    }

    /// Sets a hook that runs after the last message was settled, when the worker has no handler and no call in flight any
    /// more; it may use the inbox, and take its time. It does not run if the worker ends with an error.
    pub fn on_stop<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(WorkerSummary) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_stop = Some(Box::new(|summary| Box::pin(hook(summary))));
        self
    }
}

/// Settings.
impl<S> Worker<S> {
    /// Sets the maximum number of handlers that run at once. The default is 16, or fewer if handlers run in
    /// transactions and the store has too few connections. An explicit value that needs more connections than the store
    /// has is an error when the worker starts.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = Some(handlers);
        self
    }

    /// Sets the maximum number of messages per claim. The default is 50.
    pub fn batch(mut self, messages: u32) -> Self {
        self.options.batch = messages;
        self
    }

    /// Sets the duration of leases. The default is 30 s. A lease is extended while its handler runs; if the process
    /// dies, another worker can claim the message after at most this time.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets how often the worker polls the store while nothing wakes it up. The interval grows from `shortest` to
    /// `longest` while there are no messages. The default is 0.5 s to 5 s.
    pub fn poll_interval(mut self, shortest: Duration, longest: Duration) -> Self {
        self.options.poll_interval = shortest;
        self.options.poll_interval_max = longest;
        self
    }

    /// Sets a time limit for handlers. A handler that runs longer is stopped, which counts as a failure. The default is
    /// no limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// Sets the backoff after failures. The default is 2, 4, 8 … 60 s (IBX-081).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// Sets the number of failed attempts after which a message becomes Dead if its sender set none. The default is 10.
    /// Claims carry the limit to the store, so it applies also if the worker dies.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.options.attempts_max = Some(attempts);
        self
    }

    /// Sets how long handlers may continue after the worker was stopped. The default is 30 s. After that they are
    /// cancelled and their messages are released, without using up an attempt.
    pub fn stop_budget(mut self, budget: Duration) -> Self {
        self.options.stop_budget = budget;
        self
    }

    /// Sets the time limit for store calls. A call that takes longer counts as failed and is retried. The default is 10
    /// s.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// Sets the owner of the leases. The default is a new owner.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.options.owner = Some(owner);
        self
    }

    /// Sets a name for the worker, which operators see next to the messages that it holds or held last: 1 to 128
    /// printable ASCII characters, such as a host name and a process id. The default is none.
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.options.name = Some(name.as_ref().into());
        self
    }

    /// Claims only messages that can start at once. By default, while handlers take less than 100 ms, the worker
    /// prefetches up to as many further messages as it handles at once.
    pub fn without_prefetch(mut self) -> Self {
        self.options.prefetch = false;
        self
    }

    /// Does not run maintenance in this worker. [`crate::Maintenance`] must run elsewhere, or workers wake up late.
    pub fn without_maintenance(mut self) -> Self {
        self.options.maintenance = false;
        self
    }
}
