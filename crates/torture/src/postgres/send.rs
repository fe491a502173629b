//! `pg-send`: sends one message after another until each is answered, some of them again, some of the others' too.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncebox_core::{Accepted, Namespace, Scope};
use oncebox_testkit::SplitMix;
use tokio::time::sleep;

use super::door::{Calls, Door};
use super::log::Log;
use super::mail::{Mail, SENDERS};
use super::run_process;
use crate::Failure;

const BATCH_MAX: u64 = 16;
const REPEATS_MAX: u64 = 3;
/// Messages that wait for workers, above which none are sent.
const BACKLOG_MAX: u64 = 400;
/// Calls between two looks at that.
const LOOK_CALLS: u64 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// A sender: which, with what, and where it writes what it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) urls: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    /// Which of the senders it is.
    pub(crate) place: u64,
    /// How many messages it has.
    pub(crate) count: u64,
    /// What the sender wrote whose place it takes.
    pub(crate) after: Option<PathBuf>,
}

pub(crate) fn run(sender: &Sender) -> Result<(), Failure> {
    let next = match &sender.after {
        Some(after) => last(after)?,
        None => 0,
    };
    run_process(async {
        let (door, log) = (Door::open(&sender.urls, Calls::Single)?, Log::create(&sender.log)?);
        let mut post = Post { sender, door, log, rng: SplitMix::new(sender.seed), next };
        post.run().await
    })
}

/// The message that began the last call of a log: it may not have been answered.
fn last(log: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(log)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let last = whole.lines().rfind(|line| line.contains(" accept "));
    let first = last.and_then(|line| line.split(' ').nth(4)?.split(',').next());
    Ok(first.and_then(Mail::read).map_or(0, |mail| mail.number))
}

struct Post<'a> {
    sender: &'a Sender,
    door: Door,
    log: Log,
    rng: SplitMix,
    next: u64,
}

impl Post<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        for call in 1.. {
            if self.next == self.sender.count {
                break;
            }
            let batch = self.batch();
            while !self.send(&batch).await? {
                sleep(Duration::from_millis(self.rng.below(50))).await;
                self.door.look_again()?;
            }
            if call % LOOK_CALLS == 0 {
                self.wait_for_room().await?;
            }
        }
        Ok(())
    }

    /// Some that are new, then some that may be known.
    fn batch(&mut self) -> Vec<Mail> {
        let count = self.sender.count;
        let end = (self.next + 1 + self.rng.below(BATCH_MAX)).min(count);
        let mut batch: Vec<_> =
            (self.next..end).map(|number| Mail { sender: self.sender.place, number }).collect();
        self.next = end;
        if self.rng.below(3) == 0 {
            for _ in 0..self.rng.below(REPEATS_MAX + 1) {
                let (sender, number) = (self.rng.below(SENDERS), self.rng.below(end));
                batch.push(Mail { sender, number });
            }
        }
        batch
    }

    /// Sends once; tells whether an answer came.
    async fn send(&self, batch: &[Mail]) -> Result<bool, Failure> {
        let messages = batch.iter().map(|mail| mail.message()).collect::<Result<Vec<_>, _>>()?;
        let told: Vec<_> = batch.iter().map(|mail| mail.told()).collect();
        let id = self.log.ask(&format!("accept {}", told.join(" ")))?;
        match self.door.store().accept(&messages).await {
            Ok(outcomes) => {
                let told: Vec<_> = outcomes.iter().map(accepted).collect();
                self.log.got(id, &told)?;
                Ok(true)
            }
            Err(error) if error.is_retryable() => {
                self.log.none(id)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_for_room(&self) -> Result<(), Failure> {
        loop {
            match self.door.store().counts(&Scope::all(Namespace::Inbox)).await {
                Ok(counts) if counts.ready + counts.waiting < BACKLOG_MAX => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error.into()),
                Err(_) => self.door.look_again()?,
                Ok(_) => {}
            }
            sleep(PAUSE).await;
        }
    }
}

fn accepted(outcome: &Accepted) -> String {
    match outcome {
        Accepted::New { receipt, .. } => format!("new,{:032x}", receipt.uid.as_u128()),
        Accepted::Duplicate { receipt, .. } => format!("dup,{:032x}", receipt.uid.as_u128()),
        other => format!("{other:?}").replace(' ', ""),
    }
}
