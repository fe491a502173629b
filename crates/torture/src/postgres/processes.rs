//! Starts, kills and replaces the processes of a campaign, and reads their logs at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oncebox_audit::workers::Logs;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;

use super::message::SENDERS;
use super::store_handle;
use crate::Failure;

/// The processes of a campaign and their logs.
pub(super) struct Processes {
    directory: PathBuf,
    /// Messages per sender.
    messages: u64,
    fake_acks: bool,
    running: Vec<Process>,
    logs: Vec<PathBuf>,
    rng: SplitMix,
}

/// A process; dropping it kills it.
struct Process {
    role: Role,
    child: Child,
    log: PathBuf,
    /// The log of the process that it replaced.
    previous_log: Option<PathBuf>,
    /// A sender that has sent all its messages.
    has_finished: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender(u64),
    Worker,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Processes {
    /// Starts senders for `messages` messages in total, and no workers yet.
    pub(super) fn start(
        directory: &Path,
        messages: u64,
        seed: u64,
        fake_acks: bool,
    ) -> Result<Self, Failure> {
        let (running, logs, rng) = (Vec::new(), Vec::new(), SplitMix::new(seed));
        let mut processes = Self {
            directory: directory.to_owned(),
            messages: messages / SENDERS,
            fake_acks,
            running,
            logs,
            rng,
        };
        for sender in 0..SENDERS {
            processes.add(Role::Sender(sender), None)?;
        }
        Ok(processes)
    }

    /// Total number of messages.
    pub(super) fn messages(&self) -> u64 {
        self.messages * SENDERS
    }

    /// The file that contains the store's URL.
    pub(super) fn url_file(directory: &Path) -> PathBuf {
        directory.join("url")
    }

    /// Publishes the store's URL to all processes.
    pub(super) fn publish_url(directory: &Path, url: &str) -> Result<(), Failure> {
        store_handle::publish_url(&Self::url_file(directory), url)
    }

    pub(super) fn add_worker(&mut self) -> Result<(), Failure> {
        self.add(Role::Worker, None)
    }

    fn add(&mut self, role: Role, previous_log: Option<PathBuf>) -> Result<(), Failure> {
        let log = self.directory.join(format!("log-{}", self.logs.len()));
        let seed = self.rng.next_u64().to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(if role == Role::Worker { "pg-work" } else { "pg-send" });
        command.arg(Self::url_file(&self.directory)).arg(&log).arg(seed);
        match role {
            Role::Sender(sender) => {
                command.args([sender, self.messages].map(|number| number.to_string())).args(&previous_log);
            }
            Role::Worker => drop(command.args(self.fake_acks.then_some("--fake-acks"))),
        }
        let child = command.stdin(Stdio::piped()).spawn()?;
        self.logs.push(log.clone());
        self.running.push(Process { role, child, log, previous_log, has_finished: false });
        Ok(())
    }

    /// Kills a random process with SIGKILL and starts a replacement.
    pub(super) fn kill_one(&mut self) -> Result<(), Failure> {
        let mut alive: Vec<_> =
            (0..self.running.len()).filter(|index| !self.running[*index].has_finished).collect();
        let chosen = self.rng.below(alive.len() as u64);
        let process = self.running.swap_remove(alive.swap_remove(usize::try_from(chosen)?));
        let has_written = fs::metadata(&process.log).is_ok_and(|log| log.len() > 0);
        let previous_log = if has_written { Some(process.log.clone()) } else { process.previous_log.clone() };
        let role = process.role;
        drop(process);
        self.add(role, previous_log)
    }

    /// Fails if a process exited with work left to do.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        for process in &mut self.running {
            let Some(status) = process.child.try_wait()? else { continue };
            process.has_finished = status.success() && matches!(process.role, Role::Sender(_));
            if !process.has_finished {
                return Err(format!("a process exited on its own ({status}): see above").into());
            }
        }
        Ok(())
    }

    /// Whether every send was answered.
    pub(super) fn has_sent_all(&self) -> bool {
        self.running.iter().all(|process| process.has_finished || process.role == Role::Worker)
    }

    /// Kills all processes and reads their logs.
    pub(super) fn finish(mut self) -> Result<Logs, Failure> {
        self.check()?;
        self.running.clear();
        let mut logs = Logs::default();
        for path in &self.logs {
            // A process that was killed at once has no log.
            let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
            logs.add(&path.display().to_string(), &text)?;
        }
        Ok(logs)
    }
}
