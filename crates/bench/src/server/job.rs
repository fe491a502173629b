//! The job that the benchmark gives to its load process and the outcome that it returns, each one line of JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Payload size of every message.
pub(crate) const PAYLOAD_BYTES: usize = 256;

/// One run of the load process.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) peer: Peer,
    pub(crate) port: u16,
    pub(crate) load: Load,
    pub(crate) task: Task,
    pub(crate) seconds: f64,
    /// Makes the keys of this run differ from those of all other runs on the same server.
    pub(crate) run: u64,
}

/// The number of connections and what they send.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Each waits for the response before its next call.
    pub(crate) connections: usize,
    /// Messages per call.
    pub(crate) batch: usize,
    pub(crate) style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Peer {
    Oncebox,
    /// Our server with access control; every request has a token.
    Tokens,
    /// The HTTP endpoint that ignores what it receives.
    Bare,
    Beanstalkd,
    Redis,
    Nats,
}

/// How messages are received and acknowledged on our side; the rivals have one way each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Style {
    /// One call acknowledges the previous messages and receives the next ones.
    Work,
    /// One call to receive, one to acknowledge.
    TwoCalls,
    /// One connection streams messages, one per line, while there are any; another one acknowledges.
    Lines,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    /// Sends for the given time.
    Send,
    /// Sends for the given time, then receives and acknowledges all messages.
    Lifecycle,
    /// Every connection sends, receives and acknowledges in turn.
    Cycle,
    /// Sends at a fixed rate while other connections receive.
    Paced { per_second: f64 },
}

/// The result of a run. Rates are messages per second.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Rate of the whole task.
    pub(crate) per_second: f64,
    pub(crate) sent_per_second: f64,
    /// Rate of receiving and acknowledging.
    pub(crate) drained_per_second: f64,
    pub(crate) latency: Latency,
}

/// Percentiles in microseconds: of a send call, or from the planned send time to the receipt.
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
            Self::Tokens => "tokens",
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
