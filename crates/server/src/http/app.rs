//! What all doors share.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use oncebox::ledger::Ledger;
use oncebox::{Clock, Namespace, Oncebox, Operator, Rng, Upkept};
use oncebox_core::{Timestamp, Uid};
use oncebox_system::{SystemClock, SystemRng};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::Room;
use super::refusal::Refusal;
use crate::config::Config;
use crate::dead_letters::DeadLetters;
use crate::live::{Current, Live};
use crate::meters::Meters;
use crate::net::Capacity;
use crate::redriver::RuleFindings;
use crate::saturation::Saturation;

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct App(Arc<Inner>);

pub(crate) struct Inner {
    live: Live,
    pub(crate) oncebox: Oncebox,
    pub(crate) ledger: Ledger,
    pub(crate) room: Room,
    /// The connections of `listen`.
    pub(crate) connections: Arc<Capacity>,
    /// The connections of `admin.listen`.
    pub(crate) admin_connections: Arc<Capacity>,
    pub(crate) saturation: Saturation,
    pub(crate) dead_letters: DeadLetters,
    pub(crate) rule_findings: RuleFindings,
    pub(crate) meters: Meters,
    pub(crate) metrics: PrometheusHandle,
    /// Set when the server is about to stop: long waits end, nothing more is taken in.
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
        meters: Meters,
        metrics: PrometheusHandle,
        stopping: CancellationToken,
    ) -> Result<Self, oncebox::Error> {
        let room = Room::new(config.http.bodies_bytes_max);
        let connections = Capacity::new(config.http.connections_max, "http.connections_max");
        let admin_connections = Capacity::new(config.admin.connections_max, "admin.connections_max");
        let live = Live::new(config, &oncebox)?;
        let ledger = oncebox.ledger();
        let (clock, rng) = (SystemClock::default(), Mutex::new(SystemRng::default()));
        Ok(Self(Arc::new(Inner {
            live,
            oncebox,
            ledger,
            room,
            connections,
            admin_connections,
            saturation: Saturation::default(),
            dead_letters: DeadLetters::new(Instant::now()),
            rule_findings: RuleFindings::default(),
            meters,
            metrics,
            stopping,
            clock,
            rng,
        })))
    }

    /// The configuration that holds now, for a whole request.
    pub(crate) fn live(&self) -> Arc<Current> {
        self.live.get()
    }

    /// Lets a new configuration hold; names the settings that wait for a restart.
    pub(crate) fn adopt(&self, config: Config) -> Result<Vec<&'static str>, oncebox::Error> {
        self.live.adopt(config, &self.oncebox)
    }

    /// The time, as this process knows it.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// A new correlation id.
    pub(super) fn corr_id(&self) -> Uid {
        // Nothing here can panic halfway: what is found is whole.
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        let random = (u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64());
        Uid::v7(self.clock.now(), random)
    }

    /// Counts a refusal, and notes the bound that it is for.
    pub(super) fn refused(&self, refusal: &Refusal) {
        self.meters.refused(refusal.code);
        if let Some(bound) = refusal.bound {
            self.saturation.refused(bound, Instant::now());
        }
    }

    /// How long a request may wait, if it asks for so long.
    pub(super) fn wait(&self, wait_ms: Option<u64>) -> Result<Duration, Refusal> {
        let (wait, most) = (Duration::from_millis(wait_ms.unwrap_or(0)), self.live().config.http.wait_max);
        if wait > most {
            return Err(Refusal::schema(format!(
                "wait_ms is over the most, which is {} (milliseconds)",
                most.as_millis()
            )));
        }
        Ok(wait)
    }

    /// What upkeep did: counted, and looked at for dead letters that rise.
    pub(crate) fn upkept(&self, upkept: &Upkept) {
        self.meters.upkept(upkept);
        let (live, now) = (self.live(), Instant::now());
        for deaths in upkept.died.iter().filter(|deaths| deaths.namespace == Namespace::Mailbox) {
            let label = deaths.topic.as_ref().and_then(|topic| self.meters.label(topic.as_str()));
            let settings = live.config.mailbox.topic(label.as_deref().unwrap_or_default());
            let most = settings.dlq_alert_per_minute;
            self.dead_letters.died(label.as_deref(), deaths.reason, deaths.count, most, now);
        }
    }

    /// An operator of one face of the store.
    pub(crate) fn operator(&self, namespace: Namespace, actor: &str) -> Operator {
        match namespace {
            Namespace::Mailbox => self.live().mailbox.operator(actor),
            _ => self.oncebox.operator(actor).of(namespace),
        }
    }
}
