//! The settings of an open inbox.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::{Divergence, Hold, Policy, Source};

use crate::telemetry::TraceContext;

/// The settings of an inbox.
pub(crate) struct Settings {
    pub(crate) payload_bytes_max: usize,
    /// The policy that messages are accepted with.
    pub(crate) policy: Policy,
    /// By source, where it differs from the policy.
    pub(crate) divergence: HashMap<Source, Divergence>,
    pub(crate) ledger_keep: Duration,
    pub(crate) seen_keep: Option<Duration>,
    pub(crate) dead_keep: Option<Duration>,
    /// How many messages of a topic may die within a minute before the topic is paused; 0 is no limit.
    pub(crate) pause_after_deaths: u32,
    pub(crate) trace_context: Option<Arc<dyn TraceContext>>,
}

impl Settings {
    /// The policy that messages from `source` are accepted with.
    pub(crate) fn policy_for(&self, source: &Source) -> Policy {
        let divergence = self.divergence.get(source).copied().unwrap_or(self.policy.divergence);
        Policy { divergence, ..self.policy }
    }

    pub(crate) fn hold(&self) -> Hold {
        self.policy.hold
    }
}
