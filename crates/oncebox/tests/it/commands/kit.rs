//! Test commands, and a bank that handles them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use oncebox::commands::{
    Command, CommandRecord, CommandStatus, Contracts, Execution, Mediator, Processor, ProcessorOptions,
    ScheduleOptions, Scheduler,
};
use oncebox::{
    Backoff, Failure, Oncebox,
    message::{Namespace, Uid},
    operator::Counts,
    worker::{Growth, Jitter},
};
use serde::{Deserialize, Serialize};

use crate::fixture::Fixture;

pub(super) const PAY: &str = "payments.commands.process-payment";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pay {
    pub(super) payment: u64,
    pub(super) cents: u64,
}

impl Command for Pay {
    type Output = ();
}

pub(super) fn pay(payment: u64) -> Pay {
    Pay { payment, cents: 100 }
}

/// A command with a result, which cannot be scheduled.
pub(super) struct Add(pub(super) u64, pub(super) u64);

impl Command for Add {
    type Output = u64;
}

pub(super) fn contracts() -> Contracts {
    Contracts::new().register::<Pay>(PAY, 2).unwrap()
}

/// Records what it did, and fails a given number of times.
#[derive(Clone, Default)]
pub(super) struct Bank {
    done: Arc<Mutex<Vec<String>>>,
    failures: Arc<AtomicU32>,
}

impl Bank {
    pub(super) fn failing(times: u32) -> Self {
        Self { failures: Arc::new(AtomicU32::new(times)), ..Self::default() }
    }

    pub(super) fn note(&self, text: impl Into<String>) {
        self.done.lock().unwrap().push(text.into());
    }

    /// The recorded actions, in order.
    pub(super) fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }

    /// The recorded actions, sorted.
    pub(super) fn sorted(&self) -> Vec<String> {
        let mut done = self.done();
        done.sort();
        done
    }

    pub(super) fn maybe_fail(&self) -> Result<(), std::io::Error> {
        let failures =
            self.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match failures {
            Ok(_) => Err(std::io::Error::other("the bank is closed")),
            Err(_) => Ok(()),
        }
    }

    /// A mediator whose payment handler records payments in this bank.
    pub(super) fn mediator(&self) -> Mediator {
        Mediator::builder().with_state(self.clone()).handle(book).build().unwrap()
    }
}

async fn book(command: Arc<Pay>, execution: Execution<Bank>) -> Result<(), Failure> {
    execution.state().maybe_fail()?;
    execution.state().note(format!("{} {}", command.payment, command.cents));
    Ok(())
}

/// A backoff without jitter, so that delays are exact.
pub(super) fn backoff(seconds: u64, growth: Growth) -> Backoff {
    Backoff::new(Duration::from_secs(seconds), Duration::from_secs(600), growth, Jitter::None).unwrap()
}

pub(super) fn options(set: impl FnOnce(&mut ProcessorOptions)) -> ProcessorOptions {
    let mut options = ProcessorOptions::default();
    set(&mut options);
    options
}

pub(super) fn plain() -> ScheduleOptions {
    ScheduleOptions::default()
}

/// A processor of payments.
pub(super) fn processor(oncebox: &Oncebox, bank: &Bank, options: ProcessorOptions) -> Processor {
    Processor::new(oncebox, &contracts(), &bank.mediator(), options).unwrap()
}

impl Fixture {
    pub(super) fn scheduler(&self) -> Scheduler {
        self.oncebox.scheduler(&contracts())
    }

    /// Schedules payments with these numbers.
    pub(super) async fn pay(&self, payments: impl IntoIterator<Item = u64>) -> Vec<Uid> {
        let mut ids = Vec::new();
        for payment in payments {
            ids.push(self.scheduler().schedule(&pay(payment), plain()).await.unwrap().command_id);
        }
        ids
    }

    pub(super) async fn status(&self, id: Uid) -> CommandStatus {
        self.scheduler().status(id).await.unwrap().expect("the command is known")
    }

    pub(super) async fn record(&self, id: Uid) -> CommandRecord {
        self.scheduler().record(id).await.unwrap().expect("the command is known")
    }

    pub(super) async fn commands(&self) -> Counts {
        self.oncebox.operator("test").in_namespace(Namespace::Commands).counts(None).await.unwrap()
    }
}
