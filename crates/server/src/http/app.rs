//! State shared by all endpoints.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::ledger::Ledger;
use oncebox::{
    Oncebox, Operator,
    maintenance::MaintenanceReport,
    message::Namespace,
    store::{Clock, Rng},
};
use oncebox_capability::KeyId;
use oncebox_core::{Bound, Timestamp, Uid};
use oncebox_system::{SystemClock, SystemRng};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::api_error::ApiError;
use super::body::BodyBudget;
use crate::access::AccessControl;
use crate::config::Config;
use crate::config_handle::{ActiveConfig, ConfigHandle};
use crate::dlq_alerts::DlqAlerts;
use crate::net::ConnectionLimit;
use crate::redriver::{Redriver, RuleFindings};
use crate::saturation::Saturation;
use crate::scrape::Scrape;
use crate::server_error::ServerError;
use crate::server_metrics::ServerMetrics;

/// Shared state of the server; cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    config: ConfigHandle,
    pub(crate) oncebox: Oncebox,
    /// Only if requests need tokens.
    pub(crate) access: Option<AccessControl>,
    pub(crate) ledger: Ledger,
    pub(crate) body_budget: BodyBudget,
    /// Connections of `listen`.
    pub(crate) connections: Arc<ConnectionLimit>,
    /// Connections of `admin.listen`.
    pub(crate) admin_connections: Arc<ConnectionLimit>,
    pub(crate) saturation: Saturation,
    pub(crate) dlq_alerts: DlqAlerts,
    pub(crate) rule_findings: RuleFindings,
    pub(crate) metrics: ServerMetrics,
    pub(crate) prometheus: PrometheusHandle,
    /// Cancelled when the server is about to stop: long waits end, and no new messages are accepted.
    pub(crate) stopping: CancellationToken,
    clock: SystemClock,
    rng: Mutex<SystemRng>,
}

impl Deref for App {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl App {
    pub(crate) fn new(
        config: Config,
        oncebox: Oncebox,
        access: Option<AccessControl>,
        metrics: ServerMetrics,
        prometheus: PrometheusHandle,
        stopping: CancellationToken,
    ) -> Result<Self, ServerError> {
        let body_budget = BodyBudget::new(config.http.bodies_bytes_max);
        let connections = ConnectionLimit::new(config.http.connections_max, "http.connections_max");
        let admin_connections = ConnectionLimit::new(config.admin.connections_max, "admin.connections_max");
        let config = ConfigHandle::new(config, &oncebox)?;
        let ledger = oncebox.ledger();
        let (clock, rng) = (SystemClock::default(), Mutex::new(SystemRng::default()));
        Ok(Self(Arc::new(Inner {
            config,
            oncebox,
            access,
            ledger,
            body_budget,
            connections,
            admin_connections,
            saturation: Saturation::default(),
            dlq_alerts: DlqAlerts::new(Instant::now()),
            rule_findings: RuleFindings::default(),
            metrics,
            prometheus,
            stopping,
            clock,
            rng,
        })))
    }

    /// Returns the active configuration, to be used for a whole request.
    pub(crate) fn active(&self) -> Arc<ActiveConfig> {
        self.config.get()
    }

    /// Applies a new configuration; returns the changed settings that need a restart.
    pub(crate) fn apply(&self, config: Config) -> Result<Vec<&'static str>, ServerError> {
        let needs_restart = self.config.apply(config, &self.oncebox)?;
        if let Some(access) = &self.access {
            access.keys_reloaded();
        }
        Ok(needs_restart)
    }

    /// Whether tokens of a key are accepted, by the keys that were read last.
    pub(crate) fn accepts_key(&self, key: &KeyId) -> bool {
        self.active().keys.as_ref().is_some_and(|keys| keys.accepts(key))
    }

    /// The time of the clock of this process.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The time in Unix seconds.
    pub(crate) fn now_seconds(&self) -> u64 {
        self.clock.now().as_millis() / 1_000
    }

    /// A random number.
    pub(super) fn random(&self) -> u64 {
        // Nothing can panic while the lock is held.
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    /// A new correlation id.
    pub(super) fn corr_id(&self) -> Uid {
        // Nothing can panic while the lock is held.
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let random = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
        Uid::v7(self.clock.now(), random)
    }

    /// Counts an error, and records the bound that caused it.
    pub(super) fn record_error(&self, error: &ApiError) {
        self.metrics.rejected(error.code);
        // A paused topic is a finding of its own, and no bound of the store.
        if let Some(bound) = error.bound.filter(|bound| bound.name != Bound::PAUSED) {
            self.saturation.rejected(bound, Instant::now());
        }
    }

    /// Records the dead letters that maintenance created or removed, and starts alerts where there are too many.
    pub(crate) fn record_maintenance(&self, report: &MaintenanceReport) {
        self.metrics.record_maintenance(report);
        let (active, now) = (self.active(), Instant::now());
        for deaths in report.died.iter().filter(|deaths| deaths.namespace == Namespace::Mailbox) {
            let label = deaths.topic.as_ref().and_then(|topic| self.metrics.label(topic.as_str()));
            let settings = active.config.mailbox.topic(label.as_deref().unwrap_or_default());
            let limit = settings.dlq_alert_per_minute;
            self.dlq_alerts.died(label.as_deref(), deaths.reason, deaths.count, limit, now);
        }
    }

    /// The background job that redrives dead letters.
    pub(crate) fn redriver(&self) -> Redriver<'_> {
        Redriver {
            config: &self.config,
            metrics: &self.metrics,
            findings: &self.rule_findings,
            clock: &self.clock,
        }
    }

    /// Collects the metrics for a response.
    pub(super) fn scrape(&self) -> Scrape<'_> {
        Scrape {
            oncebox: &self.oncebox,
            config: &self.config,
            metrics: &self.metrics,
            prometheus: &self.prometheus,
            clock: &self.clock,
        }
    }

    /// Returns an operator of one namespace of the store.
    pub(crate) fn operator(&self, namespace: Namespace, actor: &str) -> Operator {
        match namespace {
            Namespace::Mailbox => self.active().mailbox.operator(actor),
            _ => self.oncebox.operator(actor).in_namespace(namespace),
        }
    }
}
