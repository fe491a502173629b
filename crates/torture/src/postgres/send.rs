//! `pg-send`: sends its messages, retries each batch until it is answered, and sometimes repeats messages of any
//! sender.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oncebox_core::{Accepted, Namespace, Scope};
use oncebox_testkit::SplitMix;
use tokio::time::sleep;

use super::log::Log;
use super::message::{SENDERS, TestMessage};
use super::run_process;
use super::store_handle::{CallMode, StoreHandle};
use crate::Failure;

const BATCH_MAX: u64 = 16;
const REPEATS_MAX: u64 = 3;
/// Number of unclaimed messages above which the sender waits.
const BACKLOG_MAX: u64 = 400;
/// Number of calls between two checks of the backlog.
const CALLS_PER_BACKLOG_CHECK: u64 = 10;
const PAUSE: Duration = Duration::from_millis(20);

/// The arguments of a sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) url_file: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) seed: u64,
    /// Which of the senders this is, from 0.
    pub(crate) index: u64,
    /// Number of messages to send.
    pub(crate) count: u64,
    /// The log of the sender that this one replaces.
    pub(crate) previous_log: Option<PathBuf>,
}

pub(crate) fn run(sender: &Sender) -> Result<(), Failure> {
    let next = match &sender.previous_log {
        Some(log) => last_started(log)?,
        None => 0,
    };
    run_process(async {
        let (handle, log) =
            (StoreHandle::open(&sender.url_file, CallMode::Single)?, Log::create(&sender.log)?);
        let mut send_loop = SendLoop { sender, handle, log, rng: SplitMix::new(sender.seed), next };
        send_loop.run().await
    })
}

/// The first message of the last call in a log, which may not have been answered.
fn last_started(log: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(log)?;
    let complete = text.rfind('\n').map_or("", |end| &text[..end]);
    let last = complete.lines().rfind(|line| line.contains(" accept "));
    let first = last.and_then(|line| line.split(' ').nth(4)?.split(',').next());
    Ok(first.and_then(TestMessage::parse).map_or(0, |message| message.number))
}

struct SendLoop<'a> {
    sender: &'a Sender,
    handle: StoreHandle,
    log: Log,
    rng: SplitMix,
    next: u64,
}

impl SendLoop<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        for call in 1.. {
            if self.next == self.sender.count {
                break;
            }
            let batch = self.batch();
            while !self.send(&batch).await? {
                sleep(Duration::from_millis(self.rng.below(50))).await;
                self.handle.refresh()?;
            }
            if call % CALLS_PER_BACKLOG_CHECK == 0 {
                self.wait_for_backlog().await?;
            }
        }
        Ok(())
    }

    /// Some new messages, sometimes followed by repeats.
    fn batch(&mut self) -> Vec<TestMessage> {
        let count = self.sender.count;
        let end = (self.next + 1 + self.rng.below(BATCH_MAX)).min(count);
        let mut batch: Vec<_> =
            (self.next..end).map(|number| TestMessage { sender: self.sender.index, number }).collect();
        self.next = end;
        if self.rng.below(3) == 0 {
            for _ in 0..self.rng.below(REPEATS_MAX + 1) {
                let (sender, number) = (self.rng.below(SENDERS), self.rng.below(end));
                batch.push(TestMessage { sender, number });
            }
        }
        batch
    }

    /// Sends once. Returns false if no answer came.
    async fn send(&self, batch: &[TestMessage]) -> Result<bool, Failure> {
        let messages = batch.iter().map(|message| message.build()).collect::<Result<Vec<_>, _>>()?;
        let items: Vec<_> = batch.iter().map(|message| message.log_item()).collect();
        let id = self.log.call(&format!("accept {}", items.join(" ")))?;
        match self.handle.store().accept(&messages).await {
            Ok(outcomes) => {
                let answer: Vec<_> = outcomes.iter().map(accepted).collect();
                self.log.answer(id, &answer)?;
                Ok(true)
            }
            Err(error) if error.is_retryable() => {
                self.log.error(id)?;
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_for_backlog(&self) -> Result<(), Failure> {
        loop {
            match self.handle.store().counts(&Scope::all(Namespace::Inbox)).await {
                Ok(counts) if counts.ready + counts.waiting < BACKLOG_MAX => return Ok(()),
                Err(error) if !error.is_retryable() => return Err(error.into()),
                Err(_) => self.handle.refresh()?,
                Ok(_) => {}
            }
            sleep(PAUSE).await;
        }
    }
}

fn accepted(outcome: &Accepted) -> String {
    match outcome {
        Accepted::New { summary, .. } => format!("new,{:032x}", summary.uid.as_u128()),
        Accepted::Duplicate { summary, .. } => format!("dup,{:032x}", summary.uid.as_u128()),
        other => format!("{other:?}").replace(' ', ""),
    }
}
