//! The errors for a disk operation that failed, and for a damaged journal.

use std::io;

use oncebox_core::{Error, ErrorKind};

use crate::file_names::segment_name;

/// The error for a failed disk operation.
pub(crate) fn failed(what: &str, error: io::Error) -> Error {
    let text = format!("{what} failed ({error}): check the disk, then reopen the store");
    Error::new(ErrorKind::Unavailable, text).with_source(error)
}

/// The error for a damaged journal, with what to do about it.
pub(crate) fn corrupt(text: &str) -> Error {
    let advice = "restore a backup, or run `oncebox store verify` and `oncebox store repair --copy-to`";
    Error::new(ErrorKind::Corrupt, format!("{text}: {advice}"))
}

/// The error for a missing segment, with its file number and generation where they are known.
pub(crate) fn missing(number: Option<u64>, generation: Option<u64>) -> Error {
    let file = number.map_or("a segment".to_owned(), |number| format!("segment {}", segment_name(number)));
    let generation = generation.map_or(String::new(), |generation| format!(" of generation {generation}"));
    corrupt(&format!("{file}{generation} is missing from the journal"))
}
