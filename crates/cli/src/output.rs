//! Results, on stdout; notes, on stderr.

mod table;

pub(crate) use table::{Cell, Tone, pairs, table};

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::trouble::Trouble;
use crate::{quantity, terminal, text};

/// How often it is shown that something goes on.
const TICK: Duration = Duration::from_secs(1);

/// How results are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// One document; a list is an array.
    Json,
    /// One line of JSON per result.
    Ndjson,
}

/// Whether colours are used.
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

/// How much of a value a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Detail {
    /// What fits the terminal: long texts are cut, times are ages, sizes have units.
    #[default]
    Fitting,
    /// All of it.
    Full,
}

/// Where results go, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// What was asked for.
    asked: Option<Format>,
    terminal: bool,
    color: bool,
    detail: Detail,
    columns: usize,
}

impl Output {
    pub(crate) fn new(asked: Option<Format>, color: Color) -> Self {
        let terminal = io::stdout().is_terminal();
        let quiet = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let color = match color {
            Color::Auto => terminal && !quiet,
            Color::Always => true,
            Color::Never => false,
        };
        Self { asked, terminal, color, detail: Detail::default(), columns: terminal::columns() }
    }

    /// The same with more or less detail.
    pub(crate) fn with_detail(self, detail: Detail) -> Self {
        Self { detail, ..self }
    }

    /// The columns that a table may take; none if it may take as many as it wants.
    pub(crate) fn columns(self) -> Option<usize> {
        (self.detail == Detail::Fitting).then_some(self.columns)
    }

    /// Sentences; on a terminal, wrapped between words.
    pub(crate) fn prose(self, sentences: Vec<String>) -> Vec<String> {
        if !self.terminal {
            return sentences;
        }
        let wrap = |sentence: String| terminal::wrapped(&sentence, self.columns, "", "  ");
        sentences.into_iter().flat_map(wrap).collect()
    }

    /// A moment for a table.
    pub(crate) fn moment(self, moment: &str) -> String {
        if self.detail == Detail::Full { moment.to_owned() } else { quantity::ago(moment) }
    }

    /// A number of bytes for a table.
    pub(crate) fn bytes(self, bytes: u64) -> String {
        if self.detail == Detail::Full { bytes.to_string() } else { quantity::bytes(bytes) }
    }

    /// What was asked for; if nothing was, a table on a terminal and lines of JSON for whatever else reads it.
    pub(crate) fn format(self) -> Format {
        let usual = if self.terminal { Format::Table } else { Format::Ndjson };
        self.asked.unwrap_or(usual)
    }

    /// The same in this format.
    pub(crate) fn with(self, format: Format) -> Self {
        Self { asked: Some(format), ..self }
    }

    /// What is prose stays prose on a pipe, unless JSON was asked for.
    pub(crate) fn of_prose(mut self) -> Self {
        self.asked.get_or_insert(Format::Table);
        self
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        if self.color && !text.is_empty() { tone.paint(text) } else { text.to_owned() }
    }

    /// One result.
    pub(crate) fn one<T: Serialize>(
        self,
        value: &T,
        people: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Trouble> {
        match self.format() {
            Format::Table => write_lines(&people()),
            Format::Json => write_lines(&[json(serde_json::to_string_pretty(value))?]),
            Format::Ndjson => write_lines(&[json(serde_json::to_string(value))?]),
        }
    }

    /// A list of results.
    pub(crate) fn many<T: Serialize>(
        self,
        values: &[T],
        people: impl FnOnce() -> Vec<String>,
    ) -> Result<(), Trouble> {
        match self.format() {
            Format::Table => write_lines(&people()),
            Format::Json => write_lines(&[json(serde_json::to_string_pretty(values))?]),
            Format::Ndjson => {
                let lines: Result<Vec<_>, _> =
                    values.iter().map(|value| json(serde_json::to_string(value))).collect();
                write_lines(&lines?)
            }
        }
    }
}

/// Leaves an empty screen, if there is one.
pub(crate) fn clear(output: Output) -> Result<(), Trouble> {
    if output.terminal { write_bytes(b"\x1b[H\x1b[2J") } else { Ok(()) }
}

/// Bytes as they are.
pub(crate) fn write_bytes(bytes: &[u8]) -> Result<(), Trouble> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    Ok(out.flush()?)
}

fn write_lines(lines: &[String]) -> Result<(), Trouble> {
    let mut all = lines.join("\n");
    if !all.is_empty() {
        all.push('\n');
    }
    write_bytes(all.as_bytes())
}

/// Shows on stderr how far a long command is, if that is a terminal; gone when it is dropped.
pub(crate) struct Progress {
    shown: bool,
    terminal: bool,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self { shown: false, terminal: io::stderr().is_terminal() }
    }

    /// Shows this in place of what it showed before.
    pub(crate) fn show(&mut self, text: &str) {
        if self.terminal {
            self.shown = true;
            // Nobody has to see it.
            let _ = write!(io::stderr(), "\r\x1b[Koncebox: {}", text::plain(text));
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

/// Does something that takes long, and shows on stderr every second that it goes on, if that is a terminal.
pub(crate) fn while_working<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (done, working) = mpsc::channel::<()>();
    let shown = move || {
        let mut progress = Progress::new();
        for seconds in 1_u64.. {
            if working.recv_timeout(TICK) != Err(mpsc::RecvTimeoutError::Timeout) {
                return;
            }
            progress.show(&format!("{what}, {seconds}s"));
        }
    };
    thread::scope(|scope| {
        scope.spawn(shown);
        let result = work();
        drop(done);
        result
    })
}

/// Something that is no result.
pub(crate) fn note(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(io::stderr(), "oncebox: {text}");
}

fn json(text: serde_json::Result<String>) -> Result<String, Trouble> {
    let text =
        text.map_err(|error| Trouble::failed(format!("the result cannot be written as JSON: {error}")))?;
    Ok(text::json(&text))
}
