//! Options of a processor.

use std::time::Duration;

use oncebox_core::{Backoff, Owner};

use crate::worker::Unhandled;

/// When a failed command is retried, and when it becomes a dead letter.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Retry {
    /// A command becomes a dead letter after this many failed attempts, unless its scheduler set another limit.
    /// Default: 5.
    pub attempts_max: u32,
    /// The delay before a retry. Default: 5 s, doubling up to 5 min, ±20 %.
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: 5, backoff: Backoff::COMMANDS }
    }
}

/// Options of a processor. [`Processor::new`](super::Processor::new) rejects values that are out of bounds.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessorOptions {
    /// Maximum number of commands leased at a time. Default: 20.
    pub batch: u32,
    /// Maximum number of commands that run concurrently. Default: 16, or as many as the store has connections for if
    /// commands run in transactions.
    pub concurrency: Option<usize>,
    /// Length of a lease. Default: 1 min. The lease is extended while handlers run; if the process dies, another
    /// processor takes over after at most this time.
    pub lease: Duration,
    /// Owner of the leases. Default: a new random owner.
    pub owner: Option<Owner>,
    /// Retry policy for failed commands.
    pub retry: Retry,
    /// What happens to commands whose contract is not registered in this process. Default: they fail like any other
    /// command. Leave them to other processors while a new version of the program is rolled out.
    pub unregistered: Unhandled,
    /// Time limit for the handlers of one command; reaching it cancels them and counts as a failure. Default: no limit.
    pub timeout: Option<Duration>,
    /// How often [`Processor::run`](super::Processor::run) polls for commands when no notification arrives. Default: 1
    /// s. After a full batch it polls again at once.
    pub poll_interval: Duration,
    /// Delay before the first poll of `run`. Default: none.
    pub startup_delay: Duration,
    /// How long running handlers may continue after a shutdown request. Default: 30 s.
    pub stop_budget: Duration,
    /// Whether `run` processes commands. Default: true. If false, `run` only waits for shutdown.
    pub enabled: bool,
}

impl Default for ProcessorOptions {
    fn default() -> Self {
        Self {
            batch: 20,
            concurrency: None,
            lease: Duration::from_secs(60),
            owner: None,
            retry: Retry::default(),
            unregistered: Unhandled::Abandon,
            timeout: None,
            poll_interval: Duration::from_secs(1),
            startup_delay: Duration::ZERO,
            stop_budget: Duration::from_secs(30),
            enabled: true,
        }
    }
}
