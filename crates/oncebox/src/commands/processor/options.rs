//! What a processor is set to.

use std::time::Duration;

use oncebox_core::{Backoff, Owner};

use crate::worker::Unhandled;

/// When a failed command is run again, and when it is given up.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Retry {
    /// Given up after this many failed runs, unless its scheduler named another limit; 5 if not set.
    pub attempts_max: u32,
    /// How long until it is run again; 5 s, doubling to 5 min, ±20 %, if not set.
    pub backoff: Backoff,
}

impl Default for Retry {
    fn default() -> Self {
        Self { attempts_max: 5, backoff: Backoff::COMMANDS }
    }
}

/// What a processor is set to. Values out of bounds are refused by [`Processor::new`](super::Processor::new).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessorOptions {
    /// How many commands are leased at a time; 20 if not set.
    pub batch: u32,
    /// How many of them run at once; 16 if not set, or as many as the store has connections for if they run in transactions.
    pub concurrency: Option<usize>,
    /// How long a command is leased at a time; 1 min if not set. It is extended while its handlers run; when the process dies,
    /// another processor takes over after at most this time.
    pub lease: Duration,
    /// Who holds the leases; a new owner if not set.
    pub owner: Option<Owner>,
    /// What becomes of a command that fails.
    pub retry: Retry,
    /// What becomes of commands whose contract is not registered here: they fail as any other if not set. Leave them to others
    /// while a new version of the program is rolled out.
    pub unregistered: Unhandled,
    /// Handlers that run longer are stopped; that counts as a failure. No limit if not set.
    pub timeout: Option<Duration>,
    /// How often [`Processor::run`](super::Processor::run) looks for commands when nothing wakes it; 1 s if not set. After a full
    /// batch it looks again at once.
    pub poll_interval: Duration,
    /// How long `run` waits before it looks for the first time; not at all if not set.
    pub startup_delay: Duration,
    /// How long handlers may go on when `run` shall stop; 30 s if not set.
    pub stop_budget: Duration,
    /// Whether `run` runs anything; it does if not set. If not, it waits to be stopped.
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
