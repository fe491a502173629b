//! The scheduler: stores commands and reports their status.

mod transaction;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{
    Accepted, Attributes, Divergence, Error, ErrorKind, Invalid, Key, MessageRef, Namespace, NewMessage,
    Payload, Policy, StoreExt, Uid,
};
use serde::Serialize;
use tracing::{info, warn};

use super::Command;
use super::contract::Contract;
use super::contracts::Contracts;
use super::receipt::ScheduleReceipt;
use super::record::{CommandRecord, CommandStatus};
use super::schedule::{self, ScheduleOptions};
use crate::shared::{Oncebox, Shared};
use crate::telemetry;

/// Maximum number of stored commands read at once, with their payloads.
const READ_BATCH_MAX: usize = 64;

/// Stores commands to be run later, and reports their status: all that application code needs. It can neither lease nor
/// settle commands. Cheap to clone.
///
/// A command with a result cannot be scheduled, because no caller waits for the result:
/// ```compile_fail,E0271
/// # use oncebox::commands::{Command, ScheduleOptions, Scheduler};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Add(u64, u64);
///
/// impl Command for Add {
///     type Output = u64;
/// }
///
/// # async fn schedule(scheduler: Scheduler) -> Result<(), oncebox::Error> {
/// scheduler.schedule(&Add(2, 3), ScheduleOptions::default()).await?;
/// # Ok(())
/// # }
/// ```
///
/// A scheduler cannot run commands:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn run(scheduler: Scheduler) -> Result<(), oncebox::Error> {
/// scheduler.process_pending().await?;
/// # Ok(())
/// # }
/// ```
///
/// It cannot lease a command:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn lease(scheduler: Scheduler, claim: oncebox_core::Claim) -> Result<(), oncebox::Error> {
/// scheduler.claim(&claim).await?;
/// # Ok(())
/// # }
/// ```
///
/// It cannot settle a command that a processor has leased:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn settle(scheduler: Scheduler, settlement: oncebox_core::Settlement) -> Result<(), oncebox::Error> {
/// scheduler.settle(&[settlement]).await?;
/// # Ok(())
/// # }
/// ```
///
/// It does not expose the store, which could do both:
/// ```compile_fail,E0616
/// # use oncebox::commands::Scheduler;
/// # fn reach(scheduler: &Scheduler) {
/// let store = &scheduler.shared;
/// # }
/// ```
#[derive(Clone)]
pub struct Scheduler {
    shared: Arc<Shared>,
    contracts: Arc<Contracts>,
    attempts_max: Option<NonZeroU32>,
}

/// A command ready to be stored, and its contract.
struct Prepared {
    contract: Contract,
    message: NewMessage,
}

impl Oncebox {
    /// The handle for scheduling commands, which a [`crate::commands::Processor`] runs later.
    pub fn scheduler(&self, contracts: &Contracts) -> Scheduler {
        Scheduler::new(self.shared(), contracts)
    }
}

impl Scheduler {
    fn new(shared: Arc<Shared>, contracts: &Contracts) -> Self {
        Self { shared, contracts: Arc::new(contracts.clone()), attempts_max: None }
    }

    /// Sets the attempt limit of commands scheduled after this call: they become dead letters after this many failed
    /// attempts. The limit is stored with each command and overrides the processor's. Default: the processor's limit.
    pub fn attempts_max(mut self, attempts: u32) -> Result<Self, Error> {
        let attempts = NonZeroU32::new(attempts);
        self.attempts_max = Some(attempts.ok_or(Invalid::new("attempts_max", "must be greater than zero"))?);
        Ok(self)
    }

    /// Stores a command. Once this returns, the command is as durable as the store guarantees, and runs at least once.
    ///
    /// For a duplicate (see [`ScheduleOptions`]), returns the receipt of the first command, even if that has already
    /// run: by default until 30 days after it completed. Fails with [`ErrorKind::Saturated`] if the store is full.
    ///
    /// *Repeat:* harmless with an idempotency key or a command id; otherwise it stores another command.
    pub async fn schedule<C>(&self, command: &C, options: ScheduleOptions) -> Result<ScheduleReceipt, Error>
    where
        C: Command<Output = ()> + Serialize,
    {
        self.schedule_many([(command, options)]).await?.pop().expect("a store returns one outcome per item")
    }

    /// Stores up to 10,000 commands, in order, with one outcome each. Check every outcome: a command that exceeded the
    /// store's capacity is an error. Nothing is stored if one of the commands is out of bounds.
    pub async fn schedule_many<'c, C>(
        &self,
        commands: impl IntoIterator<Item = (&'c C, ScheduleOptions)>,
    ) -> Result<Vec<Result<ScheduleReceipt, Error>>, Error>
    where
        C: Command<Output = ()> + Serialize,
    {
        let prepared = commands.into_iter().map(|(command, options)| self.prepare(command, options));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let (contracts, messages): (Vec<_>, Vec<_>) =
            prepared.into_iter().map(|Prepared { contract, message }| (contract, message)).unzip();
        let accepted = self.shared.store.accept(&messages).await?;
        self.receipts(contracts, &messages, accepted).await
    }

    /// The status of a command; `None` if it is unknown.
    pub async fn status(&self, command_id: Uid) -> Result<Option<CommandStatus>, Error> {
        let found = self.shared.store.get_one(&MessageRef::Uid(command_id)).await?;
        Ok(found.as_ref().and_then(CommandStatus::of))
    }

    /// The stored record of a command; `None` if it is unknown.
    pub async fn record(&self, command_id: Uid) -> Result<Option<CommandRecord>, Error> {
        let found = self.shared.store.get_one(&MessageRef::Uid(command_id)).await?;
        Ok(found.and_then(CommandRecord::of))
    }

    fn prepare<C>(&self, command: &C, options: ScheduleOptions) -> Result<Prepared, Error>
    where
        C: Command<Output = ()> + Serialize,
    {
        options.check()?;
        let contract = self.contracts.of::<C>()?.clone();
        let payload = self.payload(command)?;
        let given = |key: &String| !key.trim().is_empty();
        let ScheduleOptions { command_id, idempotency_key, visible_after, trace, strict, .. } = options;
        let key = idempotency_key.filter(given).or_else(|| command.idempotency_key().filter(given));
        let now = self.shared.clock.now();
        let (uid, id) = match (command_id, key) {
            (id, Some(key)) => (id, schedule::key_of(&key)?),
            (id, None) => {
                let id = id.unwrap_or_else(|| Uid::v7(now, self.shared.random()));
                (Some(id), schedule::key_of_id(id)?)
            }
        };
        let key = Key::new(Namespace::Commands, schedule::source(&trace)?, id);
        let mut message = NewMessage::new(key, contract.topic(), payload);
        message.uid = uid;
        message.trace = trace;
        message.content.due = visible_after.map(|moment| moment.resolve(&*self.shared.clock));
        message.content.attributes = self.attributes();
        message.policy = Policy {
            attempts_max: self.attempts_max,
            hold: self.shared.settings.hold(),
            divergence: if strict { Divergence::Conflict } else { Divergence::KeepFirst },
            // The receipt of a duplicate names the contract of a completed command, and `record` returns all of its
            // fields.
            keep_finished: true,
        };
        Ok(Prepared { contract, message })
    }

    fn payload(&self, command: &impl Serialize) -> Result<Payload, Error> {
        let json = serde_json::to_vec(command).map_err(|_| {
            // The error of serde may quote the command, and values stay out of errors.
            let text =
                "command cannot be serialized as JSON: its `Serialize` implementation failed, or a map key is not a string";
            Error::new(ErrorKind::Invalid, text)
        })?;
        let limit = self.shared.settings.payload_bytes_max;
        if json.len() > limit {
            let text = format!("command is {} bytes long as JSON, the limit is {limit}", json.len());
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(Payload::new(json)?)
    }

    /// The trace of the caller's span as an attribute, if there is one.
    fn attributes(&self) -> Attributes {
        let trace_parent = self.shared.settings.trace_context.as_ref().and_then(|context| context.current());
        let pairs = trace_parent.map(|trace_parent| (telemetry::TRACE_PARENT, trace_parent));
        // A trace that is out of bounds is dropped.
        Attributes::new(pairs).unwrap_or_default()
    }

    async fn receipts(
        &self,
        contracts: Vec<Contract>,
        messages: &[NewMessage],
        accepted: Vec<Accepted>,
    ) -> Result<Vec<Result<ScheduleReceipt, Error>>, Error> {
        let first = self.original_contracts(&accepted).await?;
        let items = contracts.into_iter().zip(messages).zip(accepted);
        let receipts = items.map(|((contract, message), accepted)| {
            let stored = accepted.summary().and_then(|receipt| first.get(&receipt.uid).cloned());
            self.record_outcome(message, accepted, stored.unwrap_or(contract))
        });
        Ok(receipts.collect())
    }

    /// The stored contracts of commands whose keys were used again with other content. For all others the contract is
    /// the caller's, because it is part of the content. Leaves out a command that cannot be read, because it was erased
    /// in the meantime or its transaction is still open.
    async fn original_contracts(&self, accepted: &[Accepted]) -> Result<HashMap<Uid, Contract>, Error> {
        let differing = accepted.iter().filter(|accepted| accepted.diverged());
        let uids: Vec<_> =
            differing.filter_map(|accepted| Some(MessageRef::Uid(accepted.summary()?.uid))).collect();
        let mut found = HashMap::new();
        for uids in uids.chunks(READ_BATCH_MAX) {
            let commands = self.shared.store.get(uids).await?;
            found.extend(commands.into_iter().flatten().filter_map(|command| {
                let contract = Contract::from_topic(command.content?.topic.as_str())?;
                Some((command.uid, contract))
            }));
        }
        Ok(found)
    }

    /// Makes the receipt, and counts and logs the outcome.
    fn record_outcome(
        &self,
        message: &NewMessage,
        accepted: Accepted,
        contract: Contract,
    ) -> Result<ScheduleReceipt, Error> {
        let (store, diverged) = (&self.shared.name, accepted.diverged());
        telemetry::scheduled(&accepted);
        let receipt = ScheduleReceipt::of(accepted, contract);
        let topic = &message.content.topic;
        match &receipt {
            Ok(ScheduleReceipt { outcome, command_id, .. }) => {
                info!(%store, contract = %topic, %command_id, ?outcome, "scheduled");
                if diverged {
                    telemetry::diverged();
                    warn!(%store, contract = %topic, %command_id, "duplicate command has different content");
                }
            }
            Err(error) => warn!(%store, contract = %topic, %error, "not scheduled"),
        }
        receipt
    }
}
