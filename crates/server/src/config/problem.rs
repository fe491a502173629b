//! All problems of a configuration, reported together.

use std::fmt;

use super::origin::Origin;

/// Maximum number of problems that are listed.
const PROBLEMS_MAX: usize = 100;

/// All problems of a configuration, one sentence per line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems {
    texts: Vec<String>,
    omitted: usize,
}

impl Problems {
    /// Iterates over the problems.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.texts.iter().map(String::as_str)
    }

    pub(super) fn add(&mut self, text: String) {
        if self.texts.len() < PROBLEMS_MAX {
            self.texts.push(text);
        } else {
            self.omitted += 1;
        }
    }

    /// Adds a problem with a value; `fault` continues the sentence that begins with its name.
    pub(super) fn at(&mut self, name: &str, origin: &Origin, fault: &str) {
        self.add(format!("{name} ({origin}) {fault}"));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(super) fn into_result(self) -> Result<(), Self> {
        if self.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.texts.join("\n"))?;
        if self.omitted > 0 {
            write!(formatter, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}
