//! The process under test: started, read line by line, killed.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use crate::random::uptime;
use crate::{Fault, Result};

/// No line for so long means that the process hangs.
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// A running process. It ends when its standard input does, so none outlives the auditor; dropping it kills it.
pub(crate) struct Running {
    process: Child,
    lines: Receiver<String>,
    pub(crate) started: Duration,
}

/// What came next.
pub(crate) enum Next {
    Line(String),
    /// Nothing until the moment that was waited for.
    Quiet,
    End,
}

impl Running {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let cannot = |error| Fault::new(format!("`{}` cannot be started: {error}", program.display()));
        let mut process = command.spawn().map_err(cannot)?;
        let (sender, lines) = channel();
        if let Some(output) = process.stdout.take() {
            std::thread::spawn(move || {
                let mut output = BufReader::new(output);
                let mut line = Vec::new();
                while output.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
                    // A kill can tear the last line; nobody was told its end, so it counts as not written.
                    let Some(whole) = line.strip_suffix(b"\n") else { return };
                    if sender.send(String::from_utf8_lossy(whole).into_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        Ok(Self { process, lines, started: uptime() })
    }

    /// The next line, if one comes before `moment`.
    pub(crate) fn next_until(&mut self, moment: Duration) -> Next {
        match self.lines.recv_timeout(moment.saturating_sub(uptime())) {
            Ok(line) => Next::Line(line),
            Err(RecvTimeoutError::Timeout) => Next::Quiet,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }

    /// The next line; none at the end of the process.
    pub(crate) fn next(&mut self) -> Result<Option<String>> {
        match self.next_until(uptime() + SILENCE_MAX) {
            Next::Line(line) => Ok(Some(line)),
            Next::End => Ok(None),
            Next::Quiet => Err(Fault::new("the process under test hangs: no line for two minutes")),
        }
    }

    /// Asks for a `pong`: when it comes, everything that was told before now has been read.
    pub(crate) fn ping(&mut self, word: &str) -> Result<()> {
        let input = self.process.stdin.as_mut();
        let sent = input.is_some_and(|input| writeln!(input, "{word}").is_ok());
        if sent { Ok(()) } else { Err(Fault::new("the process under test ended by itself: see above")) }
    }

    /// Sends SIGKILL and waits for the end; what was written before can still be read.
    pub(crate) fn kill(&mut self) -> Result<()> {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        killed.map(drop).map_err(|error| Fault::new(format!("the process cannot be killed: {error}")))
    }

    /// Waits for the end and fails if it was a bad one.
    pub(crate) fn end(mut self) -> Result<()> {
        let status = self.process.wait().map_err(|error| Fault::new(error.to_string()))?;
        if status.success() {
            return Ok(());
        }
        Err(Fault::new(format!("the process under test failed ({status}): see above")))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
