//! A run of the server: open, listen, work, stop.

mod descriptors;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use oncebox::{Builder, Oncebox};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::{Config, Listen, Loaded};
use crate::http::{self, App};
use crate::log;
use crate::meters::{Meters, names};
use crate::net::{Connections, Listener};
use crate::redriver;

/// How often what the histograms collected is counted, and bounds and dead letters are looked at that may have calmed.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// Upper ends of the buckets of latencies, in seconds.
const BUCKETS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0];

/// Why the server does not run, or did not stop well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be opened or closed.
    #[error("the store: {0}")]
    Store(#[from] oncebox::Error),
    /// An address cannot be listened on.
    #[error(
        "cannot listen on {listen} ({error}): stop the other program, or set `{setting}` to another address"
    )]
    Listen {
        /// The setting that names the address.
        setting: &'static str,
        /// The address.
        listen: String,
        /// Why.
        #[source]
        error: std::io::Error,
    },
}

/// A server that listens, and is about to run.
pub struct Server {
    app: App,
    listeners: Vec<Listener>,
    admin: Vec<Listener>,
}

impl Server {
    /// Opens the store and listens.
    pub async fn start(loaded: Loaded) -> Result<Self, Error> {
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        let config = loaded.config;
        descriptors::raise(config.http.connections_max + config.admin.connections_max);
        // Metrics are looked up when they are first used: the recorder must be there before.
        let metrics = recorder();
        let listeners = bind("listen", &config.listen).await?;
        let admin = bind("admin.listen", &config.admin.listen).await?;
        let oncebox = open(&config).await?;
        let meters = Meters::new(config.mailbox.topics.keys(), config.metrics.topics_max);
        let app = App::new(config, oncebox, meters, metrics, CancellationToken::new())?;
        Ok(Self { app, listeners, admin })
    }

    /// The addresses that it listens on.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(ToString::to_string).collect()
    }

    /// A way to change its configuration while it runs.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.app.clone())
    }

    /// Works until `shutdown` is ready; then takes nothing more in, lets everybody finish, and closes the store.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let Self { app, listeners, admin } = self;
        info!(
            store = app.oncebox.name(),
            profile = app.live().config.profile.as_str(),
            dlq_profile = crate::scrape::dlq_profile(&app),
            "local mode: whoever reaches this server on this machine may do everything; web pages may not"
        );
        let stopping = app.stopping.clone();
        let main = Connections::new(app.clone(), http::gate(app.clone()), app.connections.clone());
        let operators =
            Connections::new(app.clone(), http::admin_gate(app.clone()), app.admin_connections.clone());
        let mut acceptors = tokio::task::JoinSet::new();
        for listener in listeners {
            info!(address = %listener, "listening");
            acceptors.spawn(main.clone().accept(listener, stopping.clone()));
        }
        for listener in admin {
            info!(admin = %listener, "listening for operators, health and metrics");
            acceptors.spawn(operators.clone().accept(listener, stopping.clone()));
        }
        let told = app.clone();
        let upkeep = app.oncebox.upkeep();
        let upkeep = upkeep.on_upkept(move |upkept| told.upkept(upkept));
        let upkeep = tokio::spawn(upkeep.run(stopping.clone().cancelled_owned()));
        let metrics = tokio::spawn(collect(app.clone(), stopping.clone()));
        let redriver = tokio::spawn(redriver::run(app.clone(), stopping.clone()));
        shutdown.await;
        stopping.cancel();
        info!("stopping: nothing more is taken in");
        acceptors.join_all().await;
        let drain = app.live().config.shutdown.drain;
        tokio::join!(main.drain(drain), operators.drain(drain));
        let _ = tokio::join!(upkeep, metrics, redriver);
        app.oncebox.close().await?;
        info!("stopped");
        Ok(())
    }
}

/// Changes the configuration of a server that runs.
#[derive(Clone)]
pub struct Reloader(App);

impl Reloader {
    /// Lets a new configuration hold for every request from now on; what is in flight stays so. Logs the names of the
    /// settings that wait for a restart, and gives them back.
    pub fn reload(&self, loaded: Loaded) -> Result<Vec<&'static str>, Error> {
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        log::set_level(&loaded.config.log);
        let waiting = self.0.adopt(loaded.config)?;
        info!(?waiting, "the configuration was read again; the settings named here wait for a restart");
        Ok(waiting)
    }
}

impl Reloader {
    /// Logs that a configuration could not be read, and why: the one from before holds.
    pub fn refused(&self, problem: &str) {
        error!(problem, "the settings are wrong, and those from before hold");
    }
}

async fn bind(setting: &'static str, places: &[Listen]) -> Result<Vec<Listener>, Error> {
    let mut listeners = Vec::new();
    for listen in places {
        let bound = Listener::bind(listen).await;
        listeners.push(bound.map_err(|error| Error::Listen {
            setting,
            listen: listen.to_string(),
            error,
        })?);
    }
    Ok(listeners)
}

async fn open(config: &Config) -> Result<Oncebox, oncebox::Error> {
    builder(config).open(&url(config)).await
}

fn builder(config: &Config) -> Builder {
    let mut builder = Oncebox::builder().ledger_keep(config.ledger.keep);
    if let Some(keep) = config.retention.seen {
        builder = builder.seen_keep(keep);
    }
    if let Some(keep) = config.retention.dead {
        builder = builder.dead_keep(keep);
    }
    builder
}

/// The URL of the store, which wipes payloads with amnesia.
fn url(config: &Config) -> String {
    let wiped = config.amnesia && !config.store.contains("payloads=");
    let separator = if config.store.contains('?') { '&' } else { '?' };
    if wiped { format!("{}{separator}payloads=wiped", config.store) } else { config.store.clone() }
}

/// The recorder of this process's metrics: there can be only one.
fn recorder() -> PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    let install = || {
        let mut builder = PrometheusBuilder::new();
        for name in
            [names::REQUEST_SECONDS, names::ENQUEUE_SECONDS, names::DEQUEUE_SECONDS, names::ACK_SECONDS]
        {
            builder = match builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &BUCKETS) {
                Ok(builder) => builder,
                Err(_) => PrometheusBuilder::new(),
            };
        }
        let recorder = builder.build_recorder();
        let handle = recorder.handle();
        // Where a program has its own recorder, ours stays empty.
        let _ = metrics::set_global_recorder(recorder);
        oncebox::telemetry::names::describe();
        names::describe();
        handle
    };
    HANDLE.get_or_init(install).clone()
}

async fn collect(app: App, stopping: CancellationToken) {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(METRICS_INTERVAL) => {
                app.metrics.run_upkeep();
                app.saturation.current(Instant::now());
                app.dead_letters.current(Instant::now());
            }
        }
    }
}
