//! Results, on stdout; notes, on stderr.

mod table;

pub(crate) use table::{Cell, Tone, pairs, table};

use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::text;
use crate::trouble::Trouble;

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

/// Where results go, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// What was asked for.
    asked: Option<Format>,
    terminal: bool,
    color: bool,
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
        Self { asked, terminal, color }
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
