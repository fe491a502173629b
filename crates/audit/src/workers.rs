//! Judges a store that many processes share, from what each of them wrote down and from what is there in the end.
//!
//! Every process writes a line before each call and one after each answer, into a file of its own ([`mod@line`] has their
//! form). Moments are milliseconds of the wall clock: processes and server run on one machine. What was answered is so
//! from the moment of the answer at the latest; what was asked may be so from the moment of the question on; what was asked
//! and not answered may be so or not. The rows come from plain SQL.

mod book;
pub mod line;
mod rows;
mod rules;
mod tally;
#[cfg(test)]
mod tests;

use book::Book;
use rows::Row;
pub use tally::Tally;

use crate::{Fault, Result};

/// What all processes of a campaign wrote.
#[derive(Debug, Default)]
pub struct Logs {
    book: Book,
}

impl Logs {
    /// Takes in what one process wrote. A line without an end was torn by a kill, and counts as not written.
    pub fn add(&mut self, name: &str, text: &str) -> Result<()> {
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        self.book.hear(whole).map_err(|fault| Fault::new(format!("{name}: {fault}")))
    }

    /// Everything is finished, and these are the rows that are there (see [`mod@line`]): whether every promise was kept.
    pub fn judge(&self, rows: &str) -> Result<Tally> {
        let rows = rows.lines().map(Row::read).collect::<Result<Vec<_>>>()?;
        rules::check(&self.book, &rows)
    }

    /// When the first call was answered of those that were asked after a moment.
    pub fn first_answer_after(&self, moment: u64) -> Option<u64> {
        self.book.answered.iter().filter(|(asked, _)| *asked > moment).map(|(_, got)| *got).min()
    }
}
