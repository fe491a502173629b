//! The log of a process, in the format of `oncebox_audit::workers::protocol`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock::now;

/// An append-only file. Each line is a single write, so that a kill leaves complete lines.
pub(super) struct Log {
    file: File,
    calls: AtomicU64,
}

impl Log {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create_new(true).append(true).open(path)?;
        Ok(Self { file, calls: AtomicU64::new(0) })
    }

    /// Logs a call before it is made, and returns its id for the answer.
    pub(super) fn call(&self, request: &str) -> io::Result<u64> {
        let id = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        self.write(&format!("call {id} {request}"))?;
        Ok(id)
    }

    pub(super) fn answer(&self, id: u64, outcomes: &[String]) -> io::Result<()> {
        self.write(&format!("answer {id} {}", outcomes.join(" ")))
    }

    /// Logs that a call failed: whether it was carried out is unknown.
    pub(super) fn error(&self, id: u64) -> io::Result<()> {
        self.write(&format!("error {id}"))
    }

    /// Writes a line, prefixed with the time.
    pub(super) fn write(&self, line: &str) -> io::Result<()> {
        (&self.file).write_all(format!("{} {line}\n", now()).as_bytes())
    }
}
