//! The process under test: starts it, reads its lines, kills it.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::random::uptime;
use crate::{Result, Violation};

/// A process that writes no line for this long hangs.
const LINE_TIMEOUT: Duration = Duration::from_secs(120);

/// A running process. It exits when its standard input ends, so none outlives the auditor. Dropping it kills it.
pub(crate) struct ChildProcess {
    process: Child,
    lines: Receiver<String>,
    pub(crate) started: Duration,
}

/// The result of waiting for a line.
pub(crate) enum Next {
    Line(String),
    /// No line before the deadline.
    Timeout,
    End,
}

impl ChildProcess {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let cannot = |error| Violation::new(format!("cannot start `{}`: {error}", program.display()));
        let mut process = command.spawn().map_err(cannot)?;
        let (sender, lines) = channel();
        if let Some(output) = process.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = Vec::new();
                while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    // A kill can truncate the last line; an incomplete line counts as not written.
                    let Some(complete) = line.strip_suffix(b"\n") else { return };
                    if sender.send(String::from_utf8_lossy(complete).into_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Ok(Self { process, lines, started: uptime() })
    }

    /// The next line, if one arrives before the deadline.
    pub(crate) fn next_until(&mut self, deadline: Duration) -> Next {
        match self.lines.recv_timeout(deadline.saturating_sub(uptime())) {
            Ok(line) => Next::Line(line),
            Err(RecvTimeoutError::Timeout) => Next::Timeout,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// The next line; none after the process has exited.
    pub(crate) fn next(&mut self) -> Result<Option<String>> {
        match self.next_until(uptime() + LINE_TIMEOUT) {
            Next::Line(line) => Ok(Some(line)),
            Next::End => Ok(None),
            Next::Timeout => Err(Violation::new("the process under test hangs: no line for two minutes")),
        }
    }

    /// Requests a `pong`. Once it arrives, all lines that were written before this call have been read.
    pub(crate) fn ping(&mut self, word: &str) -> Result<()> {
        let input = self.process.stdin.as_mut();
        let sent = input.is_some_and(|input| writeln!(input, "{word}").is_ok());
        if sent { Ok(()) } else { Err(Violation::new("the process under test exited on its own: see above")) }
    }

    /// Sends SIGKILL and waits for the exit. Lines written before can still be read.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed
            .map(drop)
            .map_err(|error| Violation::new(format!("cannot kill the process under test: {error}")))
    }

    /// Waits for the exit, and fails if the exit status is not success.
    pub(crate) fn wait(mut self) -> Result<()> {
        let status = self.process.wait().map_err(|error| Violation::new(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(Violation::new(format!("the process under test failed ({status}): see above")))
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
