//! From a worker as it was set up to one that runs.

use std::collections::HashSet;

use oncebox_core::{Error, Invalid, Kind, Topic};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tracing::info;

use super::engine::{Command, Engine};
use super::options::{Options, Unhandled};
use super::rate::Rate;
use super::route::{Lane, Lanes};
use super::running::Stopped;
use super::{StartHook, StopHook, Worker};
use crate::shared::Oncebox;
use crate::telemetry::TopicMetrics;

impl<S> Worker<S> {
    /// Checks everything that was set.
    pub(super) fn prepare(self) -> Result<Prepared, Error> {
        self.options.check()?;
        if self.routes.is_empty() && self.options.unhandled == Unhandled::Leave {
            return Err(Invalid::new("handlers", "are none: add at least one with `on`").into());
        }
        let mut topics = HashSet::new();
        let mut lanes = Vec::new();
        for (topic, endpoint, settings) in self.routes {
            settings.check()?;
            let known = self.oncebox.shared().transactions.as_ref().map(|store| store.kind());
            if settings.transaction.is_some_and(|wanted| known != Some(wanted)) {
                let text = format!(
                    "the handler of topic `{topic}` asks for a transaction that this store does not have: open one that does, \
                     such as `postgres://…`"
                );
                return Err(Error::new(Kind::Unsupported, text));
            }
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
        if self.options.unhandled != Unhandled::Leave && lanes.iter().any(Lane::is_limited) {
            let text = "together with a limit or rate of a topic is not possible: a claim of every topic cannot leave one out";
            return Err(Invalid::new("on_unhandled", text).into());
        }
        let mut lanes = Lanes::new(lanes)?;
        if self.options.unhandled != Unhandled::Leave {
            lanes.take_all();
        }
        let Self { oncebox, options, on_start, on_stop, .. } = self;
        Ok(Prepared { oncebox, options, lanes, topics: topics.into_iter().collect(), on_start, on_stop })
    }
}

/// A worker that is set up rightly.
pub(super) struct Prepared {
    oncebox: Oncebox,
    options: Options,
    lanes: Lanes,
    topics: Vec<Topic>,
    on_start: Option<StartHook>,
    on_stop: Option<StopHook>,
}

impl Prepared {
    pub(super) async fn run(
        self,
        commands: mpsc::Receiver<Command>,
        until_idle: bool,
    ) -> Result<Stopped, Error> {
        let Self { oncebox, options, lanes, topics, on_start, on_stop } = self;
        if let Some(hook) = on_start {
            let refused = |error| Error::new(Kind::Invalid, "the start hook failed").with_source(error);
            hook().await.map_err(refused)?;
        }
        options.warn();
        info!(store = oncebox.name(), concurrency = options.concurrency, "the worker starts");
        let shared = oncebox.shared();
        let all = options.unhandled != Unhandled::Leave;
        let _handling = shared.handled.add(topics, all);
        // Dropped, and with it ended, when this ends or is dropped.
        let mut upkeep = JoinSet::new();
        if options.upkeep {
            upkeep.spawn(oncebox.upkeep().run(std::future::pending()));
        }
        let stopped = Engine::new(shared, options, lanes, until_idle).run(commands).await?;
        if let Some(hook) = on_stop {
            hook(stopped).await;
        }
        info!(store = oncebox.name(), handled = stopped.handled, "the worker has stopped");
        Ok(stopped)
    }
}
