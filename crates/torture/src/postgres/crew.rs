//! The processes of a campaign: started, killed, replaced, and listened to at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use oncebox_audit::workers::Logs;
use oncebox_core::Rng;
use oncebox_testkit::SplitMix;

use super::door;
use super::mail::SENDERS;
use crate::Failure;

/// Who is there, and where they write.
pub(super) struct Crew {
    directory: PathBuf,
    /// Of each sender.
    messages: u64,
    lies: bool,
    hands: Vec<Hand>,
    logs: Vec<PathBuf>,
    rng: SplitMix,
}

/// A process; dropping it kills it.
struct Hand {
    role: Role,
    child: Child,
    log: PathBuf,
    /// What the one wrote whose place it took.
    after: Option<PathBuf>,
    /// A sender that has sent everything.
    is_through: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender(u64),
    Worker,
}

impl Drop for Hand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Crew {
    /// Senders who have so many messages in all, and nobody who works yet.
    pub(super) fn start(directory: &Path, messages: u64, seed: u64, lies: bool) -> Result<Self, Failure> {
        let (hands, logs, rng) = (Vec::new(), Vec::new(), SplitMix::new(seed));
        let mut crew =
            Self { directory: directory.to_owned(), messages: messages / SENDERS, lies, hands, logs, rng };
        for sender in 0..SENDERS {
            crew.add(Role::Sender(sender), None)?;
        }
        Ok(crew)
    }

    /// How many messages are sent in all.
    pub(super) fn messages(&self) -> u64 {
        self.messages * SENDERS
    }

    /// Where the store's URL stands.
    pub(super) fn urls(directory: &Path) -> PathBuf {
        directory.join("url")
    }

    /// Tells all processes where the store is from now on.
    pub(super) fn point(directory: &Path, url: &str) -> Result<(), Failure> {
        door::point(&Self::urls(directory), url)
    }

    pub(super) fn add_worker(&mut self) -> Result<(), Failure> {
        self.add(Role::Worker, None)
    }

    fn add(&mut self, role: Role, after: Option<PathBuf>) -> Result<(), Failure> {
        let log = self.directory.join(format!("log-{}", self.logs.len()));
        let seed = self.rng.next_u64().to_string();
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(if role == Role::Worker { "pg-work" } else { "pg-send" });
        command.arg(Self::urls(&self.directory)).arg(&log).arg(seed);
        match role {
            Role::Sender(sender) => {
                command.args([sender, self.messages].map(|number| number.to_string())).args(&after);
            }
            Role::Worker => drop(command.args(self.lies.then_some("--lies"))),
        }
        let child = command.stdin(Stdio::piped()).spawn()?;
        self.logs.push(log.clone());
        self.hands.push(Hand { role, child, log, after, is_through: false });
        Ok(())
    }

    /// Kills one of them with SIGKILL and lets another take its place.
    pub(super) fn kill_one(&mut self) -> Result<(), Failure> {
        let mut alive: Vec<_> =
            (0..self.hands.len()).filter(|place| !self.hands[*place].is_through).collect();
        let chosen = self.rng.below(alive.len() as u64);
        let hand = self.hands.swap_remove(alive.swap_remove(usize::try_from(chosen)?));
        let has_written = fs::metadata(&hand.log).is_ok_and(|log| log.len() > 0);
        let after = if has_written { Some(hand.log.clone()) } else { hand.after.clone() };
        let role = hand.role;
        drop(hand);
        self.add(role, after)
    }

    /// Fails if somebody ended who had work to do.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        for hand in &mut self.hands {
            let Some(status) = hand.child.try_wait()? else { continue };
            hand.is_through = status.success() && matches!(hand.role, Role::Sender(_));
            if !hand.is_through {
                return Err(format!("a process ended by itself ({status}): see above").into());
            }
        }
        Ok(())
    }

    /// Whether every message was sent and answered.
    pub(super) fn has_sent_all(&self) -> bool {
        self.hands.iter().all(|hand| hand.is_through || hand.role == Role::Worker)
    }

    /// Ends everybody, and reads what they wrote.
    pub(super) fn end(mut self) -> Result<Logs, Failure> {
        self.check()?;
        self.hands.clear();
        let mut logs = Logs::default();
        for path in &self.logs {
            // Who was killed at once wrote nothing.
            let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
            logs.add(&path.display().to_string(), &text)?;
        }
        Ok(logs)
    }
}
