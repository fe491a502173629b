//! Findings of `verify`, with texts for operators. They contain file names and offsets, never content of messages.

use std::fmt;

use super::LISTED_MAX;

/// One kind of damage to a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum VerifyFinding {
    /// The file `store` is missing, damaged, or belongs to another store.
    Identity,
    /// The header of a segment is damaged, and the segment contains confirmed writes.
    Header {
        /// The segment's file name.
        file: String,
        /// The generation of the segment, according to its frames.
        generation: u64,
    },
    /// Frames with confirmed writes are missing or damaged.
    Frames {
        /// The segment's file name.
        file: String,
        /// The expected offset of the first of these frames.
        offset: u64,
        /// The LSN of the first of these frames.
        first_lsn: u64,
        /// The number of these frames.
        frames: u64,
    },
    /// The end of a segment's file is missing.
    Short {
        /// The segment's file name.
        file: String,
        /// The number of missing bytes.
        bytes: u64,
    },
    /// A live segment is missing.
    Missing {
        /// The generation of the segment: segments are numbered in the order in which they were started.
        generation: u64,
        /// The segment's file name, if known.
        file: Option<String>,
    },
    /// A complete group of effects cannot be decoded.
    Undecodable {
        /// The segment's file name.
        file: String,
        /// The offset of the group's first frame.
        offset: u64,
        /// The LSN of the group's first frame.
        lsn: u64,
        /// Why it cannot be decoded.
        why: &'static str,
    },
    /// A segment belongs to another store: the store does not open.
    Foreign {
        /// The segment's file name.
        file: String,
    },
}

impl fmt::Display for VerifyFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identity => f.write_str("store: missing, damaged, or of another store"),
            Self::Header { file, generation } => {
                write!(f, "{file}: the header is damaged; the frames belong to generation {generation}")
            }
            Self::Frames { file, offset, first_lsn, frames } => {
                let last = first_lsn + frames.saturating_sub(1);
                write!(f, "{file}: damaged at offset {offset}, frames {first_lsn} to {last} cannot be read")
            }
            Self::Short { file, bytes } => write!(f, "{file}: the last {bytes} bytes are missing"),
            Self::Missing { generation, file: Some(file) } => {
                write!(f, "{file}: the file is missing (segment of generation {generation})")
            }
            Self::Missing { generation, file: None } => {
                write!(f, "the segment of generation {generation} is missing")
            }
            Self::Undecodable { file, offset, lsn, why } => {
                write!(f, "{file}: the group at offset {offset} (frame {lsn}) cannot be decoded: {why}")
            }
            Self::Foreign { file } => {
                write!(f, "{file}: belongs to another store: move it away before you open the store")
            }
        }
    }
}

/// The damage to a store: the first 100 findings, and the number of others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Damage {
    /// The first 100 findings.
    pub findings: Vec<VerifyFinding>,
    /// The number of findings that are not listed.
    pub unlisted: u64,
}

impl Damage {
    pub(super) fn add(&mut self, finding: VerifyFinding) {
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
