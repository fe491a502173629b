//! The log: lines for people or for machines, on stderr; never a payload, never a key.

use std::io::IsTerminal;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use crate::config::{Log, LogFormat};

/// Installs the log for this process; a second time it does nothing.
pub fn install(settings: &Log) {
    let levels: Targets = settings.level.parse().unwrap_or_else(|_| Targets::new());
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
    // Whoever installed one before, an embedding program say, keeps it.
    let _ = registry().with(layer.with_filter(levels)).try_init();
}
