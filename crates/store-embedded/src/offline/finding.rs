//! What can be wrong with a store, in words for an operator. Names files and places, never what messages hold.

use std::fmt;

use super::LISTED_MAX;

/// One thing that is wrong with a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// The file `store` is missing, damaged, or that of another store.
    Identity,
    /// A segment's header is damaged, and the segment holds what was answered.
    Header {
        /// The segment's file.
        file: String,
        /// What its frames say that it is.
        generation: u64,
    },
    /// Frames that were answered are missing or damaged.
    Frames {
        /// The segment's file.
        file: String,
        /// Where the first of them should be.
        offset: u64,
        /// The number of the first of them.
        first_lsn: u64,
        /// How many.
        frames: u64,
    },
    /// A segment's file has lost its end.
    Short {
        /// The segment's file.
        file: String,
        /// How much is gone.
        bytes: u64,
    },
    /// A segment that is needed is not there.
    Missing {
        /// Which one: segments are counted in the order in which they were begun.
        generation: u64,
        /// Its file, if something tells.
        file: Option<String>,
    },
    /// A group of effects is whole and yet cannot be understood.
    Undecodable {
        /// The segment's file.
        file: String,
        /// Where its first frame is.
        offset: u64,
        /// That frame's number.
        lsn: u64,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A segment of another store: opening would wipe it.
    Foreign {
        /// Its file.
        file: String,
    },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("store: missing, damaged, or that of another store"),
            Self::Header { file, generation } => {
                write!(f, "{file}: the header is damaged, the frames are those of generation {generation}")
            }
            Self::Frames { file, offset, first_lsn, frames } => {
                let last = first_lsn + frames.saturating_sub(1);
                write!(f, "{file}: damaged at offset {offset}, frames {first_lsn} to {last} cannot be read")
            }
            Self::Short { file, bytes } => write!(f, "{file}: the last {bytes} bytes are gone"),
            Self::Missing { generation, file: Some(file) } => {
                write!(f, "{file}: the file is missing, a segment of generation {generation}")
            }
            Self::Missing { generation, file: None } => {
                write!(f, "the segment of generation {generation} is missing")
            }
            Self::Undecodable { file, offset, lsn, why } => {
                write!(f, "{file}: the group at offset {offset}, frame {lsn}, cannot be understood: {why}")
            }
            Self::Foreign { file } => {
                write!(f, "{file}: a segment of another store: move it away before the store is opened")
            }
        }
    }
}

/// What is wrong with a store: the first hundred findings, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Damage {
    /// At most a hundred.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub unlisted: u64,
}

impl Damage {
    pub(super) fn add(&mut self, finding: Finding) {
        if self.findings.len() < LISTED_MAX {
            self.findings.push(finding);
        } else {
            self.unlisted += 1;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, finding) in self.findings.iter().enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{finding}")?;
        }
        if self.unlisted > 0 {
            write!(f, "\nand {} more", self.unlisted)?;
        }
        Ok(())
    }
}
