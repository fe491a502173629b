//! What a process writes down: the forms that `oncebox_audit::workers::line` describes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::now;

/// A file that only grows. A line is written at once, so that a kill leaves whole ones.
pub(super) struct Log {
    file: File,
    calls: AtomicU64,
}

impl Log {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create_new(true).append(true).open(path)?;
        Ok(Self { file, calls: AtomicU64::new(0) })
    }

    /// A call is about to be made; tells the number to answer it under.
    pub(super) fn ask(&self, words: &str) -> io::Result<u64> {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.note(&format!("ask {id} {words}"))?;
        Ok(id)
    }

    pub(super) fn got(&self, id: u64, outcomes: &[String]) -> io::Result<()> {
        self.note(&format!("got {id} {}", outcomes.join(" ")))
    }

    /// An error came, and nobody knows.
    pub(super) fn none(&self, id: u64) -> io::Result<()> {
        self.note(&format!("none {id}"))
    }

    /// Writes a line with the time before it.
    pub(super) fn note(&self, words: &str) -> io::Result<()> {
        (&self.file).write_all(format!("{} {words}\n", now()).as_bytes())
    }
}
