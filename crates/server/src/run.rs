//! The life of a server: open the store, listen, serve, drain, close.

mod descriptors;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use oncebox::{Oncebox, OnceboxBuilder};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::access::{AccessControl, Revocations};
use crate::config::{Config, ListenAddress, Loaded};
use crate::http::{self, App};
use crate::log;
use crate::net::{Connections, Listener, Scheme};
use crate::server_error::ServerError;
use crate::server_metrics::{ServerMetrics, names};

/// Interval at which histograms are aggregated, and expired findings about bounds and dead letters are cleared.
const METRICS_INTERVAL: Duration = Duration::from_secs(5);
/// Upper bounds of the latency buckets, in seconds.
const BUCKETS: [f64; 14] =
    [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 60.0];

/// A server that listens on its addresses and is ready to run.
pub struct Server {
    app: App,
    listeners: Vec<Listener>,
    admin: Vec<Listener>,
}

impl Server {
    /// Binds the listeners and opens the store.
    pub async fn start(loaded: Loaded) -> Result<Self, ServerError> {
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        let config = loaded.config;
        descriptors::raise(config.http.connections_max + config.admin.connections_max);
        // Metric handles are resolved at first use, so the recorder must be installed before that.
        let prometheus = recorder();
        let scheme = if config.tls.certificate_file.is_some() { Scheme::Https } else { Scheme::Http };
        let listeners = bind("listen", &config.listen, scheme).await?;
        let admin = bind("admin.listen", &config.admin.listen, scheme).await?;
        let oncebox = open(&config).await?;
        let metrics = ServerMetrics::new(config.mailbox.topics.keys(), config.metrics.topics_max);
        let access = access_control(&config, &oncebox).await?;
        let app = App::new(config, oncebox, access, metrics, prometheus, CancellationToken::new())?;
        Ok(Self { app, listeners, admin })
    }

    /// The addresses that the server listens on, without those of `admin.listen`.
    pub fn addresses(&self) -> Vec<String> {
        self.listeners.iter().map(ToString::to_string).collect()
    }

    /// Returns a handle that changes the configuration of the running server.
    pub fn reloader(&self) -> Reloader {
        Reloader(self.app.clone())
    }

    /// Serves requests until `shutdown` completes; then accepts nothing more, drains connections and closes the store.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self { app, listeners, admin } = self;
        log_mode(&app);
        let stopping = app.stopping.clone();
        let gauge = &app.metrics.connections;
        let clients = Connections::new(
            http::service(app.clone()),
            app.connections.clone(),
            gauge.clone(),
            stopping.clone(),
        );
        let operators = Connections::new(
            http::admin_service(app.clone()),
            app.admin_connections.clone(),
            gauge.clone(),
            stopping.clone(),
        );
        let mut acceptors = tokio::task::JoinSet::new();
        for listener in listeners {
            info!(address = %listener, "listening");
            acceptors.spawn(clients.clone().accept(listener));
        }
        for listener in admin {
            info!(admin = %listener, "listening for operator, health and metrics requests");
            acceptors.spawn(operators.clone().accept(listener));
        }
        let reporter = app.clone();
        let maintenance = app.oncebox.maintenance();
        let maintenance = maintenance.on_report(move |report| reporter.record_maintenance(report));
        let maintenance = tokio::spawn(maintenance.run(stopping.clone().cancelled_owned()));
        let metrics = tokio::spawn(collect(app.clone(), stopping.clone()));
        let redriver = tokio::spawn(redrive(app.clone(), stopping.clone()));
        let revocations = tokio::spawn(read_revocations(app.clone(), stopping.clone()));
        shutdown.await;
        stopping.cancel();
        info!("stopping: no new requests are accepted");
        acceptors.join_all().await;
        let drain = app.active().config.shutdown.drain;
        tokio::join!(clients.drain(drain), operators.drain(drain));
        let _ = tokio::join!(maintenance, metrics, redriver, revocations);
        app.oncebox.close().await?;
        info!("stopped");
        Ok(())
    }
}

/// Changes the configuration of a running server.
#[derive(Clone)]
pub struct Reloader(App);

impl Reloader {
    /// Applies a new configuration to every request from now on; requests in flight keep the old one. Logs and returns
    /// the names of changed settings that need a restart.
    pub fn reload(&self, loaded: Loaded) -> Result<Vec<&'static str>, ServerError> {
        for warning in &loaded.warnings {
            warn!("{warning}");
        }
        log::set_level(&loaded.config.log);
        let needs_restart = self.0.apply(loaded.config)?;
        info!(?needs_restart, "configuration reloaded");
        Ok(needs_restart)
    }

    /// Logs that a new configuration could not be loaded; the current one stays in effect.
    pub fn reload_failed(&self, problem: &str) {
        error!(problem, "configuration reload failed, the current configuration stays in effect");
    }
}

async fn bind(
    setting: &'static str,
    addresses: &[ListenAddress],
    scheme: Scheme,
) -> Result<Vec<Listener>, ServerError> {
    let mut listeners = Vec::new();
    for listen in addresses {
        let bound = Listener::bind(listen, scheme).await;
        listeners.push(bound.map_err(|error| ServerError::Listen {
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

/// Access control, if there are keys. A store that keeps nothing keeps no revocations either, so they are in a file.
async fn access_control(config: &Config, oncebox: &Oncebox) -> Result<Option<AccessControl>, ServerError> {
    let Some(key_file) = &config.auth.key_file else { return Ok(None) };
    let revocations = if oncebox.capabilities().durable {
        Revocations::in_store(oncebox.store())
    } else {
        let mut path = key_file.as_os_str().to_owned();
        path.push(".revocations");
        Revocations::in_file(path.into())
    };
    let read = revocations.read().await;
    read.map_err(|error| ServerError::Revocations(error.to_string()))?;
    Ok(Some(AccessControl::new(revocations)))
}

/// Logs who has access.
fn log_mode(app: &App) {
    let active = app.active();
    let store = app.oncebox.name();
    let profile = active.config.profile.as_str();
    let dlq_profile = crate::scrape::dlq_profile(&app.oncebox);
    match &active.keys {
        Some(keys) => {
            let keys: Vec<String> = keys.statuses().map(|(id, status)| format!("{id} ({status})")).collect();
            let keys = keys.join(", ");
            info!(store, profile, dlq_profile, keys, "every request needs a token, except health checks");
        }
        None => info!(
            store,
            profile,
            dlq_profile,
            "local mode without authentication: every local client has full access, except web pages; set `auth.key_file` to demand tokens"
        ),
    }
}

fn builder(config: &Config) -> OnceboxBuilder {
    let mut builder = Oncebox::builder().ledger_keep(config.ledger.keep);
    if let Some(keep) = config.retention.seen {
        builder = builder.seen_keep(keep);
    }
    if let Some(keep) = config.retention.dead {
        builder = builder.dead_keep(keep);
    }
    builder
}

/// The URL of the store; with amnesia, the store is asked to wipe payloads.
fn url(config: &Config) -> String {
    let wipe = config.amnesia && !config.store.contains("payloads=");
    let separator = if config.store.contains('?') { '&' } else { '?' };
    if wipe { format!("{}{separator}payloads=wiped", config.store) } else { config.store.clone() }
}

/// The metrics recorder of this process; there can be only one.
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
        // If the embedding program has installed its own recorder, ours stays empty.
        let _ = metrics::set_global_recorder(recorder);
        oncebox::telemetry::names::describe();
        names::describe();
        handle
    };
    HANDLE.get_or_init(install).clone()
}

async fn redrive(app: App, stopping: CancellationToken) {
    app.redriver().run(stopping).await;
}

async fn read_revocations(app: App, stopping: CancellationToken) {
    if let Some(access) = &app.access {
        access.revocations.run(|| app.active().config.auth.cap_cache_ttl, stopping).await;
    }
}

async fn collect(app: App, stopping: CancellationToken) {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return,
            () = tokio::time::sleep(METRICS_INTERVAL) => {
                app.prometheus.run_upkeep();
                app.saturation.current(Instant::now());
                app.dlq_alerts.current(Instant::now());
            }
        }
    }
}
