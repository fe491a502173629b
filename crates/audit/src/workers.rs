//! Checks a store that several processes share, by their logs and by the rows in the end.
//!
//! Every process writes a line before each call and one after each answer into its own log; [`mod@protocol`] describes
//! them. Times are milliseconds of the wall clock; processes and server run on one machine. A call takes effect between
//! its line and the line of its answer; a call without an answer may or may not take effect. The rows are read with
//! plain SQL.

mod history;
pub mod protocol;
mod rows;
mod rules;
mod tally;
#[cfg(test)]
mod tests;

use history::History;
use rows::Row;
pub use tally::WorkersTally;

use crate::{Result, Violation};

/// The logs of all processes of a campaign.
#[derive(Debug, Default)]
pub struct Logs {
    history: History,
}

impl Logs {
    /// Adds the log of one process. A last line without a line break was truncated by a kill, and counts as not
    /// written.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        self.history.read_log(complete).map_err(|violation| Violation::new(format!("{name}: {violation}")))
    }

    /// Checks every guarantee against the final rows, whose form [`mod@protocol`] describes. All messages must be
    /// finished.
    pub fn check(&self, rows: &str) -> Result<WorkersTally> {
        let rows = rows.lines().map(Row::read).collect::<Result<Vec<_>>>()?;
        rules::check(&self.history, &rows)
    }

    /// The time of the first answer to a call that was made after `time`.
    pub fn first_answer_after(&self, time: u64) -> Option<u64> {
        self.history
            .answered
            .iter()
            .filter(|(called_at, _)| *called_at > time)
            .map(|(_, answered_at)| *answered_at)
            .min()
    }
}
