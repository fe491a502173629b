//! The server process: starts it, waits until it is ready, kills it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use super::KillServerCampaign;
use super::http::Connection;
use crate::Failure;
use crate::clock::{now, pause};

/// Timeout until the server listens, and then until it is ready.
const START_MAX: Duration = Duration::from_secs(60);
/// Number of log lines shown if the server does not start.
const LINES_MAX: usize = 10;
/// Short retry delays, so that messages are retried during the campaign.
const SETTINGS: [&str; 3] =
    ["mailbox.topic.backoff_base=50ms", "mailbox.topic.backoff_max=500ms", "mailbox.topic.replay_window=1h"];

/// A running server; dropping it kills it.
pub(super) struct Server {
    process: Child,
    pub(super) address: String,
    /// Time from the start until the server was ready.
    pub(super) took: Duration,
}

impl Server {
    pub(super) fn start(campaign: &KillServerCampaign) -> Result<Self, Failure> {
        let began = now();
        let mut command = Command::new(&campaign.program);
        command.args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--set",
            "admin.listen=off",
            "--store",
            &campaign.store,
        ]);
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let cannot = |error| format!("cannot start `{}`: {error}", campaign.program.display());
        let mut process = command.spawn().map_err(cannot)?;
        let log = process.stderr.take().ok_or("the server has no standard error")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                // Keep reading after the server listens, or its writes would block.
                let _ = sender.send(line);
            }
        });
        let mut server = Self { process, address: String::new(), took: Duration::ZERO };
        server.address = listening(&lines)?;
        server.wait_until_ready()?;
        server.took = Duration::from_millis(now().saturating_sub(began));
        Ok(server)
    }

    fn wait_until_ready(&self) -> Result<(), Failure> {
        let until = now() + u64::try_from(START_MAX.as_millis())?;
        loop {
            let response = Connection::open(&self.address)?.get("/readyz")?;
            if response.status == 200 {
                return Ok(());
            }
            if now() > until {
                return Err(format!("the server did not become ready: {}", response.body).into());
            }
            pause(Duration::from_millis(20));
        }
    }

    /// Sends SIGKILL and waits for the exit. Fails if the server had already exited.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        if let Some(status) = self.process.try_wait()? {
            return Err(format!("the server exited on its own ({status})").into());
        }
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Reads the address that the server listens on from its log.
fn listening(lines: &Receiver<String>) -> Result<String, Failure> {
    let mut last = VecDeque::new();
    loop {
        match lines.recv_timeout(START_MAX) {
            Ok(line) => {
                let event: Value = serde_json::from_str(&line).unwrap_or_default();
                if let (Some("listening"), Some(url)) = (message(&event), address(&event)) {
                    return Ok(url.trim_start_matches("http://").to_owned());
                }
                last.push_back(line);
                last.truncate(LINES_MAX);
            }
            Err(RecvTimeoutError::Timeout) => return Err("the server did not log its address in time".into()),
            Err(RecvTimeoutError::Disconnected) => {
                let tail: Vec<_> = last.into();
                return Err(format!("the server did not start: {}", tail.join("\n")).into());
            }
        }
    }
}

/// A field of a log event, at its top level or in `fields`.
fn field<'v>(event: &'v Value, name: &str) -> Option<&'v str> {
    event[name].as_str().or_else(|| event["fields"][name].as_str())
}

fn message(event: &Value) -> Option<&str> {
    field(event, "message")
}

fn address(event: &Value) -> Option<&str> {
    field(event, "address")
}
