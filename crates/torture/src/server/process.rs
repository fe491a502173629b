//! The server: started, waited for, killed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::Value;

use super::Campaign;
use super::http::Connection;
use crate::Failure;
use crate::clock::{now, pause};

/// It listens after so long, and is ready after so long again, or never.
const START_MAX: Duration = Duration::from_secs(60);
/// Lines of its log that are shown if it does not start.
const LINES_MAX: usize = 10;
/// Short retry times, so that everything can come again during the campaign.
const SETTINGS: [&str; 3] =
    ["mailbox.topic.backoff_base=50ms", "mailbox.topic.backoff_max=500ms", "mailbox.topic.replay_window=1h"];

/// A running server; dropping it kills it.
pub(super) struct Server {
    process: Child,
    pub(super) address: String,
    /// From the start until it was ready.
    pub(super) took: Duration,
}

impl Server {
    pub(super) fn start(campaign: &Campaign) -> Result<Self, Failure> {
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
        let cannot = |error| format!("`{}` cannot be started: {error}", campaign.program.display());
        let mut process = command.spawn().map_err(cannot)?;
        let log = process.stderr.take().ok_or("the server has no log")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(log).lines().map_while(Result::ok) {
                // Nobody reads on once the server listens, but it must be able to write.
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
            let answer = Connection::open(&self.address)?.get("/readyz")?;
            if answer.status == 200 {
                return Ok(());
            }
            if now() > until {
                return Err(format!("the server does not become ready: {}", answer.body).into());
            }
            pause(Duration::from_millis(20));
        }
    }

    /// Sends SIGKILL and waits for the end. Fails if it had ended by itself.
    pub(super) fn kill(mut self) -> Result<(), Failure> {
        if let Some(status) = self.process.try_wait()? {
            return Err(format!("the server ended by itself ({status})").into());
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

/// Where the server says that it listens.
fn listening(lines: &Receiver<String>) -> Result<String, Failure> {
    let mut last = VecDeque::new();
    loop {
        match lines.recv_timeout(START_MAX) {
            Ok(line) => {
                let told: Value = serde_json::from_str(&line).unwrap_or_default();
                if let (Some("listening"), Some(url)) = (message(&told), address(&told)) {
                    return Ok(url.trim_start_matches("http://").to_owned());
                }
                last.push_back(line);
                last.truncate(LINES_MAX);
            }
            Err(RecvTimeoutError::Timeout) => return Err("the server does not say that it listens".into()),
            Err(RecvTimeoutError::Disconnected) => {
                let said: Vec<_> = last.into();
                return Err(format!("the server does not start: {}", said.join("\n")).into());
            }
        }
    }
}

/// A field of a line of the log, at its top or among the fields of the event.
fn field<'v>(told: &'v Value, name: &str) -> Option<&'v str> {
    told[name].as_str().or_else(|| told["fields"][name].as_str())
}

fn message(told: &Value) -> Option<&str> {
    field(told, "message")
}

fn address(told: &Value) -> Option<&str> {
    field(told, "address")
}
