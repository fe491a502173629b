//! All that is wrong, told at once.

use std::fmt;

use super::origin::Origin;

/// How many problems are told.
const PROBLEMS_MAX: usize = 100;

/// All that is wrong with a configuration: a sentence for each, one per line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    texts: Vec<String>,
    untold: usize,
}

impl Problems {
    /// The sentences.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(super) fn add(&mut self, text: String) {
        if self.texts.len() < PROBLEMS_MAX {
            self.texts.push(text);
        } else {
            self.untold += 1;
        }
    }

    /// Something is wrong with what was set there; `fault` continues the sentence.
    pub(super) fn at(&mut self, name: &str, origin: &Origin, fault: &str) {
        self.add(format!("{name} ({origin}) {fault}"));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(super) fn none(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts.join("\n"))?;
        if self.untold > 0 {
            write!(formatter, "\nand {} more", self.untold)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
