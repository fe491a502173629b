//! The log on stderr, as text or JSON. It never contains payloads or keys.

use std::io::IsTerminal;
use std::sync::OnceLock;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry, reload};

use crate::config::{LogConfig, LogFormat};

/// Prefix of the log targets of the database driver.
const DRIVER: &str = "sqlx";

/// Reloads the levels of the installed log.
static LEVELS: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Installs the log for this process. A second call has no effect.
pub fn install(settings: &LogConfig) {
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
    // An embedding program that has installed a subscriber keeps it.
    if registry().with(layer.with_filter(levels)).try_init().is_ok() {
        let _ = LEVELS.set(handle);
    }
}

/// Logs a warning of the embedding program in the format of the log.
pub fn warn(text: &str) {
    tracing::warn!("{text}");
}

/// Applies new levels.
pub(crate) fn set_level(settings: &LogConfig) {
    if let Some(handle) = LEVELS.get() {
        // Fails only if the subscriber is gone, which happens at process exit.
        let _ = handle.reload(targets(settings));
    }
}

/// The level of each target. The database driver logs what our errors report as well, once per connection: unless its
/// level is set explicitly, only its errors are logged.
fn targets(settings: &LogConfig) -> Targets {
    let targets: Targets = settings.level.parse().unwrap_or_else(|_| Targets::new());
    if settings.level.contains(DRIVER) {
        return targets;
    }
    targets.with_targets(["sqlx", "sqlx_core", "sqlx_postgres"].map(|target| (target, LevelFilter::ERROR)))
}
