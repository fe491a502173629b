//! What the benchmark tells its load process, and what that answers: one line of JSON each way.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes that every message carries.
pub(crate) const PAYLOAD_BYTES: usize = 256;

/// One run of the load process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) peer: Peer,
    pub(crate) port: u16,
    pub(crate) load: Load,
    pub(crate) task: Task,
    pub(crate) seconds: f64,
    /// Sets the keys of this run apart from those of all other runs on the same server.
    pub(crate) run: u64,
}

/// Who calls with what.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Each waits for an answer before its next call.
    pub(crate) connections: usize,
    /// Messages per call.
    pub(crate) batch: usize,
    pub(crate) style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peer {
    Oncebox,
    /// The HTTP endpoint that does nothing with what it gets.
    Bare,
    Beanstalkd,
    Redis,
    Nats,
}

/// How messages are received and acknowledged on our side; the rivals have one way each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Style {
    /// One call acknowledges the last and receives the next.
    Work,
    /// A call to receive, a call to acknowledge.
    TwoCalls,
    /// One connection receives a line per message for as long as there are any, another acknowledges.
    Lines,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Sends for the given time.
    Send,
    /// Sends for the given time, then receives and acknowledges all of it.
    Lifecycle,
    /// Every connection sends, receives and acknowledges in turn.
    Cycle,
    /// Sends at a fixed rate while others receive.
    Paced { per_second: f64 },
}

/// What a run showed. Rates are messages per second.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Of the whole task.
    pub(crate) per_second: f64,
    pub(crate) sent_per_second: f64,
    /// Received and acknowledged.
    pub(crate) drained_per_second: f64,
    pub(crate) latency: Latency,
}

/// Microseconds that so many percent stay within: of a sending call, or from the planned sending to the receipt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) longest: f64,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Oncebox => "oncebox",
            Self::Bare => "bare",
            Self::Beanstalkd => "beanstalkd",
            Self::Redis => "redis",
            Self::Nats => "nats",
        })
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p95, p99, longest } = self;
        write!(f, "{p50:.0}/{p95:.0}/{p99:.0}/{longest:.0}")
    }
}
