//! The log: lines for people or for machines, on stderr; never a payload, never a key.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry, reload};

use crate::config::{Log, LogFormat};

/// What the targets of the driver begin with.
const DRIVER: &str = "sqlx";

/// Changes the levels of the log that was installed.
static LEVELS: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Installs the log for this process; a second time it does nothing.
pub fn install(settings: &Log) {
    let terminal = std::io::stderr().is_terminal();
    let pretty = match settings.format {
        LogFormat::Pretty => true,
        LogFormat::Json => false,
        LogFormat::Auto => terminal,
    };
    let layer = if pretty {
        let colours = terminal && std::env::var_os("NO_COLOR").is_none();
        fmt::layer().with_writer(std::io::stderr).with_ansi(colours).boxed()
    } else {
        fmt::layer().json().flatten_event(true).with_writer(std::io::stderr).boxed()
    };
    let (levels, handle) = reload::Layer::new(targets(settings));
    // Whoever installed one before, an embedding program say, keeps it.
    if registry().with(layer.with_filter(levels)).try_init().is_ok() {
        let _ = LEVELS.set(handle);
    }
}

/// Logs a warning of the program that runs the server, in the format of the log.
pub fn warn(text: &str) {
    tracing::warn!("{text}");
}

/// Lets other levels hold from now on.
pub(crate) fn set_level(settings: &Log) {
    if let Some(handle) = LEVELS.get() {
        // The log is gone only with the process.
        let _ = handle.reload(targets(settings));
    }
}

/// The levels by target. The driver of the database logs what our errors say too, once per connection: unless its level is set, only
/// its errors are logged.
fn targets(settings: &Log) -> Targets {
    let targets: Targets = settings.level.parse().unwrap_or_else(|_| Targets::new());
    if settings.level.contains(DRIVER) {
        return targets;
    }
    targets.with_targets(["sqlx", "sqlx_core", "sqlx_postgres"].map(|target| (target, LevelFilter::ERROR)))
}
