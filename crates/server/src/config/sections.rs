//! What the server is set to, and the defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use oncebox::ledger::KEEP_MIN;
use oncebox::mailbox::MailboxSettings;

use super::field::words;
use super::listen::Listen;
use super::redrive::RedriveRule;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const PORT: u16 = 7420;
const ADMIN_PORT: u16 = 7421;

pub(super) const STORE_DEFAULT: &str = "embedded:./oncebox-data";
pub(super) const STORE_AMNESIA: &str = "memory:";

/// All that the server is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Where it answers operators beside that.
    pub admin: Admin,
    /// What it is deployed as.
    pub profile: Profile,
    /// Keeps nothing on disk.
    pub amnesia: bool,
    /// The URL of the store.
    pub store: String,
    /// What it logs.
    pub log: Log,
    /// The bounds of its HTTP door.
    pub http: Http,
    /// The mailbox.
    pub mailbox: MailboxSettings,
    /// Rules that redrive dead letters of the mailbox by themselves.
    pub redrive: Vec<RedriveRule>,
    /// The ledger.
    pub ledger: Ledger,
    /// How long what ended badly or was only seen is kept.
    pub retention: Retention,
    /// The metrics.
    pub metrics: Metrics,
    /// How it stops.
    pub shutdown: Shutdown,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: local(PORT),
            admin: Admin::default(),
            profile: Profile::Macronode,
            amnesia: false,
            store: STORE_DEFAULT.to_owned(),
            log: Log::default(),
            http: Http::default(),
            mailbox: MailboxSettings::default(),
            redrive: Vec::new(),
            ledger: Ledger::default(),
            retention: Retention::default(),
            metrics: Metrics::default(),
            shutdown: Shutdown::default(),
        }
    }
}

fn local(port: u16) -> Vec<Listen> {
    vec![Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))]
}

/// The listener for operators, health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admin {
    /// Where it listens; nowhere if empty.
    pub listen: Vec<Listen>,
    /// Connections at once, at most.
    pub connections_max: usize,
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: local(ADMIN_PORT), connections_max: 64 }
    }
}

words! {
    /// What the server is deployed as.
    Profile {
        /// A service that keeps what it takes in.
        Macronode: "macronode",
        /// A node at the edge: amnesia unless told otherwise.
        Micronode: "micronode",
    }
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Log {
    /// How a line looks.
    pub format: LogFormat,
    /// Levels, for all and by target; always parses as `tracing_subscriber::filter::Targets`.
    pub level: String,
}

impl Default for Log {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
    }
}

words! {
    /// How a line of the log looks.
    LogFormat {
        /// Pretty on a terminal, else JSON.
        Auto: "auto",
        /// For people.
        Pretty: "pretty",
        /// For machines, one object a line.
        Json: "json",
    }
}

/// The bounds of the HTTP door.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Http {
    /// Connections at once, at most.
    pub connections_max: usize,
    /// How long the head of a request may take to come, and the first one after the connection was opened.
    pub header_timeout: Duration,
    /// How long its body may take.
    pub body_timeout: Duration,
    /// How long a client may take to read an answer, or the next 64 KiB of it.
    pub write_timeout: Duration,
    /// How long a connection stays open without a request.
    pub idle_timeout: Duration,
    /// The largest body of a call with one message.
    pub body_bytes_max: usize,
    /// The largest body of a call with many messages.
    pub batch_bytes_max: usize,
    /// All bodies that are being read at once, together.
    pub bodies_bytes_max: usize,
    /// The longest that a call may wait for messages.
    pub wait_max: Duration,
    /// Items in one call, at most.
    pub batch_items_max: usize,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(10),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            body_bytes_max: 2 * MIB,
            batch_bytes_max: 16 * MIB,
            bodies_bytes_max: 256 * MIB,
            wait_max: Duration::from_secs(60),
            batch_items_max: 1_000,
        }
    }
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Ledger {
    /// How long a processed key is kept.
    pub keep: Duration,
    /// What the answer for a key is that nobody has told of.
    pub unknown_key: UnknownKey,
}

impl Default for Ledger {
    fn default() -> Self {
        Self { keep: KEEP_MIN, unknown_key: UnknownKey::Unknown }
    }
}

words! {
    /// What the answer for an unknown key is.
    UnknownKey {
        /// 200 with status `Unknown`.
        Unknown: "unknown",
        /// 404.
        NotFound: "not-found",
    }
}

/// How long what ended badly or was only seen is kept, but for the mailbox; for ever if not set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Retention {
    /// What was seen and never enqueued, from when it came.
    pub seen: Option<Duration>,
    /// What is Dead in the inbox and among the commands, from when it died.
    pub dead: Option<Duration>,
}

/// The metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Topics with a label of their own; those beyond are labelled `other`.
    pub topics_max: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        Self { topics_max: 64 }
    }
}

/// How the server stops.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shutdown {
    /// How long calls that are under way may take to end.
    pub drain: Duration,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self { drain: Duration::from_secs(10) }
    }
}
