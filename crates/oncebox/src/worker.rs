//! The worker: claims messages, runs their handlers, and tells the store how it went.

mod attempt;
mod calls;
mod context;
mod engine;
mod extract;
mod failure;
mod handler;
mod held;
mod options;
mod prepare;
mod rate;
mod route;
mod running;
mod service;
mod transaction;
mod verdict;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Backoff, Namespace, Owner};
use tower_layer::Layer;
use tower_service::Service;

use crate::health::Pulse;
use crate::shared::Oncebox;
use options::Options;
use service::AnyLayer;

pub use context::Context;
pub(crate) use extract::unreadable;
pub use extract::{Extract, FromState, Json, Rejection, State, Text};
pub use failure::{BoxError, Failed, Failure, Wish};
pub use handler::{Handler, HandlerFn, IntoResult};
pub use options::Unhandled;
pub use route::Route;
pub use running::{Running, Stopped};
pub use service::HandlerService;
pub use transaction::Tx;

type StartHook = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>> + Send>;
type StopHook = Box<dyn FnOnce(Stopped) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Handlers by topic, and how they are run. Built, then run.
///
/// ```
/// # use std::time::Duration;
/// use oncebox::{Bytes, Context, Failure, Oncebox, Route, State, Worker};
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
    routes: Vec<(String, handler::Endpoint, route::RouteSettings)>,
    layers: Vec<AnyLayer>,
    options: Options,
    /// A new one if none is given.
    pulse: Option<Arc<Pulse>>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

impl Worker {
    /// A worker without handlers.
    pub fn new(oncebox: &Oncebox) -> Self {
        Self {
            oncebox: oncebox.clone(),
            state: (),
            routes: Vec::new(),
            layers: Vec::new(),
            options: Options::default(),
            pulse: None,
            on_start: None,
            on_stop: None,
        }
    }

    /// Handlers that are added from here on can ask for this state by [`State`].
    pub fn with_state<S: Clone + Send + Sync + 'static>(self, state: S) -> Worker<S> {
        let Self { oncebox, routes, layers, options, pulse, on_start, on_stop, .. } = self;
        Worker { oncebox, state, routes, layers, options, pulse, on_start, on_stop }
    }

    /// Works on another face of the store, under a pulse that outlives it.
    pub(crate) fn of(mut self, namespace: Namespace, pulse: Arc<Pulse>) -> Self {
        self.options.namespace = namespace;
        self.pulse = Some(pulse);
        self
    }
}

/// Handlers.
impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// Messages of this topic are handled by this async function. Topics are case-sensitive, and each has one handler.
    ///
    /// A handler that computes for long or blocks belongs into `tokio::task::spawn_blocking`: on the runtime's threads it keeps
    /// others, and the heartbeats of their leases, from their turn.
    pub fn on<Arguments>(self, topic: impl Into<String>, handler: impl HandlerFn<S, Arguments>) -> Self {
        self.route(Route::new(topic, handler))
    }

    /// Messages of the object's topic are handled by it.
    pub fn handler(self, handler: impl Handler) -> Self {
        self.route(Route::object(handler))
    }

    /// The same with settings for this topic alone.
    pub fn route(mut self, route: Route<S>) -> Self {
        let endpoint = (route.make)(self.state.clone());
        self.routes.push((route.topic, endpoint, route.settings));
        self
    }

    /// Puts a tower layer around every handler, also those added later. The layer that was added last is outermost.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HandlerService> + Send + Sync + 'static,
        L::Service: Service<Context, Response = ()> + Clone + Send + Sync + 'static,
        <L::Service as Service<Context>>::Error: Into<BoxError>,
        <L::Service as Service<Context>>::Future: Send,
    {
        self.layers.push(Box::new(move |endpoint| service::wrap(&layer, endpoint)));
        self
    }

    /// What becomes of messages whose topic has no handler here; they are left for other workers if not set. Not together
    /// with limits of topics.
    pub fn on_unhandled(mut self, unhandled: Unhandled) -> Self {
        self.options.unhandled = unhandled;
        self
    }

    /// Runs before the first message is claimed; if it fails, the worker does not start.
    pub fn on_start<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<(), BoxError>> + Send + 'static,
    {
        self.on_start = Some(Box::new(|| Box::pin(hook())));
        self
    }

    /// Runs after the last message was settled; not if the worker ends by an error.
    pub fn on_stop<F, Fut>(mut self, hook: F) -> Self
    where
        F: FnOnce(Stopped) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        self.on_stop = Some(Box::new(|stopped| Box::pin(hook(stopped))));
        self
    }
}

/// Settings.
impl<S> Worker<S> {
    /// How many handlers run at once; 16 if not set, or as many as the store has connections for where handlers run in
    /// transactions. More of those than that are refused when the worker starts.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = Some(handlers);
        self
    }

    /// How many messages one claim takes at most; 50 if not set.
    pub fn batch(mut self, messages: u32) -> Self {
        self.options.batch = messages;
        self
    }

    /// How long a message is leased at a time; 30 s if not set. It is extended while its handler runs; when the process
    /// dies, another worker takes over after at most this time.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// How often the store is asked when nothing has come and nothing woke the worker; from 0.5 s, growing to 5 s while
    /// it stays idle, if not set.
    pub fn poll_interval(mut self, shortest: Duration, longest: Duration) -> Self {
        self.options.poll_interval = shortest;
        self.options.poll_interval_max = longest;
        self
    }

    /// A handler that runs longer is stopped; that counts as a failure. No limit if not set.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = Some(timeout);
        self
    }

    /// When a failed message is tried again; after 2, 4, 8 … 60 s if not set (IBX-081).
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.options.backoff = backoff;
        self
    }

    /// Messages whose senders named no limit are given up after this many failed attempts; 10 if not set. Each claim carries
    /// it, so a message whose worker dies is judged by it too.
    pub fn attempts_max(mut self, attempts: u32) -> Self {
        self.options.attempts_max = Some(attempts);
        self
    }

    /// How long handlers may go on after the worker was told to stop; 30 s if not set. Then they are cancelled and their
    /// messages given back, without an attempt spent.
    pub fn stop_budget(mut self, budget: Duration) -> Self {
        self.options.stop_budget = budget;
        self
    }

    /// How long a call to the store may take before it counts as failed and is repeated; 10 s if not set.
    pub fn call_timeout(mut self, timeout: Duration) -> Self {
        self.options.call_timeout = timeout;
        self
    }

    /// Who holds the leases; a new owner if not set.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.options.owner = Some(owner);
        self
    }

    /// What the worker calls itself, for operators, who see it beside the messages that it holds or held last: 1 to 128 printable
    /// ASCII characters, such as a host and a process. None if not set.
    pub fn name(mut self, name: impl AsRef<str>) -> Self {
        self.options.name = Some(name.as_ref().into());
        self
    }

    /// Claims only what can start at once. Otherwise, while handlers take less than 100 ms, up to as many messages again as
    /// run are held ready.
    pub fn without_look_ahead(mut self) -> Self {
        self.options.look_ahead = false;
        self
    }

    /// Leaves upkeep to somebody else: [`crate::Upkeep`] has to run somewhere, or workers wake late.
    pub fn without_upkeep(mut self) -> Self {
        self.options.upkeep = false;
        self
    }
}
