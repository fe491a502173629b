//! Writes results to stdout and notes to stderr.

mod table;

pub(crate) use table::{Cell, Tone, pairs, table};

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::error::CliError;
use crate::{quantity, terminal, text};

/// How often the progress line is updated.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Output format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Human-readable table.
    Table,
    /// One JSON document; a list is an array.
    Json,
    /// One line of JSON per result.
    Ndjson,
}

/// When to use colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How much of each value a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Detail {
    /// Fits the terminal: long texts are truncated, times are shown as ages and sizes with units.
    #[default]
    Fitting,
    /// Complete values.
    Full,
}

/// The format and style of results.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// The format that was requested on the command line.
    requested: Option<Format>,
    terminal: bool,
    color: bool,
    detail: Detail,
    columns: usize,
}

impl Output {
    pub(crate) fn new(requested: Option<Format>, color: Color) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            Color::Auto => terminal && !no_color,
            Color::Always => true,
            Color::Never => false,
        };
        Self { requested, terminal, color, detail: Detail::default(), columns: terminal::columns() }
    }

    /// Returns a copy with this level of detail.
    pub(crate) fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// Maximum width of a table; `None` for no limit.
    pub(crate) fn columns(self) -> Option<usize> {
        (self.detail == Detail::Fitting).then_some(self.columns)
    }

    /// Wraps sentences between words if stdout is a terminal.
    pub(crate) fn wrap_prose(self, sentences: Vec<String>) -> Vec<String> {
        if !self.terminal {
            return sentences;
        }
        let wrap = |sentence: String| terminal::wrap(&sentence, self.columns, "", "  ");
        sentences.into_iter().flat_map(wrap).collect()
    }

    /// Formats a timestamp for a table.
    pub(crate) fn timestamp(self, timestamp: &str) -> String {
        if self.detail == Detail::Full { timestamp.to_owned() } else { quantity::ago(timestamp) }
    }

    /// Formats a number of bytes for a table.
    pub(crate) fn bytes(self, bytes: u64) -> String {
        if self.detail == Detail::Full { bytes.to_string() } else { quantity::bytes(bytes) }
    }

    /// The requested format; by default a table on a terminal, otherwise lines of JSON.
    pub(crate) fn format(self) -> Format {
        let default = if self.terminal { Format::Table } else { Format::Ndjson };
        self.requested.unwrap_or(default)
    }

    /// Returns a copy with this format.
    pub(crate) fn with_format(self, format: Format) -> Self {
        Self { requested: Some(format), ..self }
    }

    /// For commands that write prose, also to a pipe, unless JSON was requested.
    pub(crate) fn prose_by_default(mut self) -> Self {
        self.requested.get_or_insert(Format::Table);
        self
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if self.color && !text.is_empty() { tone.paint(text) } else { text.to_owned() }
    }

    /// Writes one result.
    pub(crate) fn write_one<T: Serialize>(
        self,
        value: &T,
        human: impl FnOnce() -> Vec<String>,
    ) -> Result<(), CliError> {
        match self.format() {
            Format::Table => write_lines(&human()),
            Format::Json => write_lines(&[json(serde_json::to_string_pretty(value))?]),
            Format::Ndjson => write_lines(&[json(serde_json::to_string(value))?]),
        }
    }

    /// Writes a list of results.
    pub(crate) fn write_list<T: Serialize>(
        self,
        values: &[T],
        human: impl FnOnce() -> Vec<String>,
    ) -> Result<(), CliError> {
        match self.format() {
            Format::Table => write_lines(&human()),
            Format::Json => write_lines(&[json(serde_json::to_string_pretty(values))?]),
            Format::Ndjson => {
                let lines: Result<Vec<_>, _> =
                    values.iter().map(|value| json(serde_json::to_string(value))).collect();
                write_lines(&lines?)
            }
        }
    }
}

/// Clears the screen if stdout is a terminal.
pub(crate) fn clear_screen(output: Output) -> Result<(), CliError> {
    if output.terminal { write_bytes(b"\x1b[H\x1b[2J") } else { Ok(()) }
}

/// Writes bytes unchanged.
pub(crate) fn write_bytes(bytes: &[u8]) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

fn write_lines(lines: &[String]) -> Result<(), CliError> {
    let mut text = lines.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    write_bytes(text.as_bytes())
}

/// A progress line on stderr, shown only on a terminal; cleared when it is dropped.
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: false, terminal: io::stderr().is_terminal() }
    }

    /// Replaces the text of the progress line.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            self.shown = true;
            // The progress line is optional, so errors are ignored.
            let _ = write!(io::stderr(), "\r\x1b[Koncebox: {}", text::escape(text));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Runs `work` and shows `what` and the elapsed seconds on stderr every second, if that is a terminal.
pub(crate) fn with_progress<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, finished) = mpsc::channel::<()>();
    let ticker = move || {
        let mut progress = Progress::new();
        for seconds in 1_u64.. {
            if finished.recv_timeout(PROGRESS_INTERVAL) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            progress.show(&format!("{what}, {seconds}s"));
        }
    };
    thread::scope(|scope| {
        scope.spawn(ticker);
        let result = work();
        drop(done);
        result
    })
}

/// Writes a note to stderr.
pub(crate) fn note(text: &str) {
    // Without a stderr the note is lost.
    let _ = writeln!(io::stderr(), "oncebox: {text}");
}

fn json(text: serde_json::Result<String>) -> Result<String, CliError> {
    let text =
        text.map_err(|error| CliError::failed(format!("cannot serialize the result as JSON: {error}")))?;
    Ok(text::escape_json(&text))
}
