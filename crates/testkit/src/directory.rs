//! Deleting directories that a store under test still has open.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

/// The maximum number of attempts.
const TRIES_MAX: usize = 100;

/// Deletes a directory and its contents, even while a store creates files in it. A file that appears between the
/// listing and the deletion makes the system refuse the deletion, which is then retried a bounded number of times.
pub fn delete(directory: &Path) -> Result<(), Error> {
    let mut outcomes = (0..TRIES_MAX).map(|_| fs::remove_dir_all(directory));
    let refused = |outcome: &Result<(), Error>| {
        outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty)
    };
    outcomes.find(|outcome| !refused(outcome)).unwrap_or_else(|| Err(ErrorKind::DirectoryNotEmpty.into()))
}
