//! The configuration of the server and its defaults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use oncebox::ledger::KEEP_MIN;
use oncebox::mailbox::MailboxSettings;
use oncebox::message::DeadReason;

use super::field::choices;
use super::listen::ListenAddress;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
const PORT: u16 = 7420;
const ADMIN_PORT: u16 = 7421;

pub(super) const STORE_DEFAULT: &str = "embedded:./oncebox-data";
pub(super) const STORE_AMNESIA: &str = "memory:";

/// The configuration of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// Addresses to listen on.
    pub listen: Vec<ListenAddress>,
    /// The listener for operator, health and metrics requests.
    pub admin: AdminConfig,
    /// Deployment profile.
    pub profile: Profile,
    /// Whether nothing is kept on disk.
    pub amnesia: bool,
    /// URL of the store.
    pub store: String,
    /// Log format and levels.
    pub log: LogConfig,
    /// Access control.
    pub auth: AuthConfig,
    /// TLS.
    pub tls: TlsConfig,
    /// Limits and timeouts of the HTTP API.
    pub http: HttpConfig,
    /// The mailbox.
    pub mailbox: MailboxSettings,
    /// Rules that redrive dead letters of the mailbox automatically.
    pub redrive: Vec<RedriveRule>,
    /// The ledger.
    pub ledger: LedgerConfig,
    /// Retention of dead and of seen messages.
    pub retention: RetentionConfig,
    /// The metrics.
    pub metrics: MetricsConfig,
    /// Shutdown.
    pub shutdown: ShutdownConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: local(PORT),
            admin: AdminConfig::default(),
            profile: Profile::Macronode,
            amnesia: false,
            store: STORE_DEFAULT.to_owned(),
            log: LogConfig::default(),
            auth: AuthConfig::default(),
            tls: TlsConfig::default(),
            http: HttpConfig::default(),
            mailbox: MailboxSettings::default(),
            redrive: Vec::new(),
            ledger: LedgerConfig::default(),
            retention: RetentionConfig::default(),
            metrics: MetricsConfig::default(),
            shutdown: ShutdownConfig::default(),
        }
    }
}

fn local(port: u16) -> Vec<ListenAddress> {
    vec![ListenAddress::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))]
}

/// The listener for operator, health and metrics requests.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AdminConfig {
    /// Addresses to listen on; none if empty.
    pub listen: Vec<ListenAddress>,
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
}

impl Default for AdminConfig {
    fn default() -> Self {
        Self { listen: local(ADMIN_PORT), connections_max: 64 }
    }
}

choices! {
    /// Deployment profile.
    Profile {
        /// A service that keeps accepted messages on disk.
        Macronode: "macronode",
        /// An edge node, with amnesia by default.
        Micronode: "micronode",
    }
}

/// Log settings.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogConfig {
    /// Format of log lines.
    pub format: LogFormat,
    /// Levels, global and by target; always parses as `tracing_subscriber::filter::Targets`.
    pub level: String,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { format: LogFormat::Auto, level: "info".to_owned() }
    }
}

choices! {
    /// Format of log lines.
    LogFormat {
        /// Pretty on a terminal, JSON otherwise.
        Auto: "auto",
        /// Human-readable text.
        Pretty: "pretty",
        /// JSON, one object per line.
        Json: "json",
    }
}

/// Access control.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuthConfig {
    /// The file with the root keys of tokens; without it, requests need no token.
    pub key_file: Option<PathBuf>,
    /// Maximum age of the known revocations.
    pub cap_cache_ttl: Duration,
    /// Maximum difference of the clocks of servers.
    pub clock_tolerance: Duration,
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { key_file: None, cap_cache_ttl: Duration::from_secs(30), clock_tolerance: Duration::ZERO }
    }
}

/// TLS of all listeners but unix sockets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TlsConfig {
    /// The certificate of the server and its chain, in PEM format; without it, there is no TLS.
    pub certificate_file: Option<PathBuf>,
    /// The private key of the certificate, in PEM format.
    pub key_file: Option<PathBuf>,
    /// The certificate authorities of clients, in PEM format; without it, clients need no certificate.
    pub client_ca_file: Option<PathBuf>,
}

/// Limits and timeouts of the HTTP API.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Maximum number of concurrent connections.
    pub connections_max: usize,
    /// Maximum time to receive a request head; for the first one, from when the connection was opened.
    pub header_timeout: Duration,
    /// Maximum time to receive a request body.
    pub body_timeout: Duration,
    /// Maximum time for a client to read a response, or the next 64 KiB of it.
    pub write_timeout: Duration,
    /// Maximum time that a connection stays open without a request.
    pub idle_timeout: Duration,
    /// Maximum body size of a request with a single message.
    pub body_bytes_max: usize,
    /// Maximum body size of a batch request.
    pub batch_bytes_max: usize,
    /// Maximum total size of large bodies that are being processed.
    pub bodies_bytes_max: usize,
    /// Maximum time that a request may wait for messages.
    pub wait_max: Duration,
    /// Maximum number of items in a batch request.
    pub batch_items_max: usize,
}

impl Default for HttpConfig {
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

/// A rule that redrives dead letters of the mailbox automatically.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedriveRule {
    /// Topic to redrive; every topic if `None`.
    pub topic: Option<String>,
    /// Reason of the dead letters to redrive; any reason if `None`.
    pub reason: Option<DeadReason>,
    /// Minimum time since the message died.
    pub age: Duration,
    /// Maximum number of messages per minute and server.
    pub per_minute: u32,
    /// Maximum number of redrives of a message, by rules and by operators together.
    pub times_max: u32,
}

/// The ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LedgerConfig {
    /// Retention of processed keys.
    pub keep: Duration,
    /// Response for an unknown key.
    pub unknown_key: UnknownKey,
}

impl Default for LedgerConfig {
    fn default() -> Self {
        Self { keep: KEEP_MIN, unknown_key: UnknownKey::Unknown }
    }
}

choices! {
    /// Response for an unknown key.
    UnknownKey {
        /// 200 with the status `Unknown`.
        Unknown: "unknown",
        /// 404.
        NotFound: "not-found",
    }
}

/// Retention of dead and of seen messages, except in the mailbox; unlimited if not set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RetentionConfig {
    /// Retention of messages that were seen and never enqueued, from when they were seen.
    pub seen: Option<Duration>,
    /// Retention of dead messages of the inbox and the commands, from when they died.
    pub dead: Option<Duration>,
}

/// The metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MetricsConfig {
    /// Maximum number of topics with a label of their own; others are labelled `other`.
    pub topics_max: usize,
}

impl Default for MetricsConfig {
    fn default() -> Self {
        Self { topics_max: 64 }
    }
}

/// Shutdown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownConfig {
    /// Maximum time for requests in progress to finish.
    pub drain: Duration,
}

impl Default for ShutdownConfig {
    fn default() -> Self {
        Self { drain: Duration::from_secs(10) }
    }
}
