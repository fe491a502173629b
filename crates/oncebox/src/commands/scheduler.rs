//! Scheduling: storing commands, and asking what became of them.

mod transaction;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use oncebox_core::{
    Accepted, Attributes, Divergence, Error, Invalid, Key, Kind, Namespace, NewMessage, Payload, Policy, Ref,
    StoreExt, Uid,
};
use serde::Serialize;
use tracing::{info, warn};

use super::Command;
use super::contract::Contract;
use super::contracts::Contracts;
use super::receipt::Receipt;
use super::record::{Record, Status};
use super::schedule::{self, ScheduleOptions};
use crate::shared::Shared;
use crate::telemetry;

/// Stored commands that are read at once, with their payloads, at most.
const READ_AT_ONCE_MAX: usize = 64;

/// Stores commands to be run later, and tells what became of them: all that an application's code needs. It can neither lease
/// nor settle. Cheap to clone.
///
/// Only a command without a result can be scheduled, for nobody would be there to take it:
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
/// Code that has a scheduler cannot run what others have scheduled:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn run(scheduler: Scheduler) -> Result<(), oncebox::Error> {
/// scheduler.process_pending().await?;
/// # Ok(())
/// # }
/// ```
///
/// Nor can it lease a command:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn lease(scheduler: Scheduler, claim: oncebox_core::Claim) -> Result<(), oncebox::Error> {
/// scheduler.claim(&claim).await?;
/// # Ok(())
/// # }
/// ```
///
/// Nor settle one that a processor has leased:
/// ```compile_fail,E0599
/// # use oncebox::commands::Scheduler;
/// # async fn settle(scheduler: Scheduler, settlement: oncebox_core::Settlement) -> Result<(), oncebox::Error> {
/// scheduler.settle(&[settlement]).await?;
/// # Ok(())
/// # }
/// ```
///
/// Nor reach the store that could do both:
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

/// A command to be stored, and its contract.
struct Prepared {
    contract: Contract,
    message: NewMessage,
}

impl Scheduler {
    pub(crate) fn new(shared: Arc<Shared>, contracts: &Contracts) -> Self {
        Self { shared, contracts: Arc::new(contracts.clone()), attempts_max: None }
    }

    /// Commands that are scheduled from here on are given up after this many failed runs, whatever their processor is set to.
    /// Stored with each command. If it is not set, the processor's limit counts.
    pub fn attempts_max(mut self, attempts: u32) -> Result<Self, Error> {
        let attempts = NonZeroU32::new(attempts);
        self.attempts_max = Some(attempts.ok_or(Invalid::new("attempts_max", "must be greater than zero"))?);
        Ok(self)
    }

    /// Stores a command. When this answers, it is as safe as the store promises, and is run at least once.
    ///
    /// A submission that came before (see [`ScheduleOptions`]) is answered with the receipt of the first, also when that has
    /// long been run: by default until 30 days after it was. If the store is full it answers [`Kind::Saturated`].
    ///
    /// *Repeat:* harmless with an idempotency key or a command id; otherwise it is another command.
    pub async fn schedule<C>(&self, command: &C, options: ScheduleOptions) -> Result<Receipt, Error>
    where
        C: Command<Output = ()> + Serialize,
    {
        self.schedule_many([(command, options)]).await?.pop().expect("a store gives one outcome per item")
    }

    /// Stores up to 10,000, in order, with one outcome each: look at them, those for whom there was no room are errors. Nothing is
    /// stored if one of them is out of bounds.
    pub async fn schedule_many<'c, C>(
        &self,
        commands: impl IntoIterator<Item = (&'c C, ScheduleOptions)>,
    ) -> Result<Vec<Result<Receipt, Error>>, Error>
    where
        C: Command<Output = ()> + Serialize,
    {
        let prepared = commands.into_iter().map(|(command, options)| self.prepared(command, options));
        let prepared = prepared.collect::<Result<Vec<_>, _>>()?;
        let (contracts, messages): (Vec<_>, Vec<_>) =
            prepared.into_iter().map(|Prepared { contract, message }| (contract, message)).unzip();
        let accepted = self.shared.store.accept(&messages).await?;
        self.receipts(contracts, &messages, accepted).await
    }

    /// Where a command stands; none if there is none.
    pub async fn status(&self, command_id: Uid) -> Result<Option<Status>, Error> {
        let found = self.shared.store.get_one(&Ref::Uid(command_id)).await?;
        Ok(found.as_ref().and_then(Status::of))
    }

    /// Everything that is stored of a command; none if there is none.
    pub async fn record(&self, command_id: Uid) -> Result<Option<Record>, Error> {
        let found = self.shared.store.get_one(&Ref::Uid(command_id)).await?;
        Ok(found.and_then(Record::of))
    }

    fn prepared<C>(&self, command: &C, options: ScheduleOptions) -> Result<Prepared, Error>
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
        message.content.due = visible_after.map(|moment| moment.seen_from(&*self.shared.clock));
        message.content.attributes = self.attributes();
        message.policy = Policy {
            attempts_max: self.attempts_max,
            hold: self.shared.settings.hold(),
            divergence: if strict { Divergence::Conflict } else { Divergence::KeepFirst },
            // A receipt names the contract of a command that has long been run, and its record is whole.
            keep_finished: true,
        };
        Ok(Prepared { contract, message })
    }

    fn payload(&self, command: &impl Serialize) -> Result<Payload, Error> {
        let json = serde_json::to_vec(command).map_err(|_| {
            // What serde says may quote the command, and values stay out of errors.
            let text =
                "command cannot be written as JSON: its Serialize refuses, or has keys that are no texts";
            Error::new(Kind::Invalid, text)
        })?;
        let limit = self.shared.settings.payload_bytes_max;
        if json.len() > limit {
            let text = format!("command is {} bytes long as JSON, the limit is {limit}", json.len());
            return Err(Error::new(Kind::Invalid, text));
        }
        Ok(Payload::new(json)?)
    }

    /// The trace of whoever schedules, if there is one.
    fn attributes(&self) -> Attributes {
        let trace_parent = self.shared.settings.trace_context.as_ref().and_then(|context| context.current());
        let pairs = trace_parent.map(|trace_parent| (telemetry::TRACE_PARENT, trace_parent));
        // A trace that is out of bounds is left behind.
        Attributes::new(pairs).unwrap_or_default()
    }

    async fn receipts(
        &self,
        contracts: Vec<Contract>,
        messages: &[NewMessage],
        accepted: Vec<Accepted>,
    ) -> Result<Vec<Result<Receipt, Error>>, Error> {
        let first = self.first_contracts(&accepted).await?;
        let items = contracts.into_iter().zip(messages).zip(accepted);
        let receipts = items.map(|((contract, message), accepted)| {
            let stored = accepted.receipt().and_then(|receipt| first.get(&receipt.uid).cloned());
            self.told(message, accepted, stored.unwrap_or(contract))
        });
        Ok(receipts.collect())
    }

    /// The contracts of commands whose keys came again with other content. Of all others the contract is the caller's: it is part
    /// of the content. One that is not to be seen, because it was erased just now or its transaction is still open, is left out.
    async fn first_contracts(&self, accepted: &[Accepted]) -> Result<HashMap<Uid, Contract>, Error> {
        let differing = accepted.iter().filter(|accepted| accepted.diverged());
        let uids: Vec<_> = differing.filter_map(|accepted| Some(Ref::Uid(accepted.receipt()?.uid))).collect();
        let mut found = HashMap::new();
        for uids in uids.chunks(READ_AT_ONCE_MAX) {
            let commands = self.shared.store.get(uids).await?;
            found.extend(commands.into_iter().flatten().filter_map(|command| {
                let contract = Contract::of_topic(command.content?.topic.as_str())?;
                Some((command.uid, contract))
            }));
        }
        Ok(found)
    }

    /// Counts and logs what became of a submission.
    fn told(&self, message: &NewMessage, accepted: Accepted, contract: Contract) -> Result<Receipt, Error> {
        let (store, diverged) = (&self.shared.name, accepted.diverged());
        let receipt = Receipt::of(accepted, contract);
        telemetry::scheduled(receipt.as_ref());
        let topic = &message.content.topic;
        match &receipt {
            Ok(Receipt { outcome, command_id, .. }) => {
                info!(%store, contract = %topic, %command_id, ?outcome, "scheduled");
                if diverged {
                    telemetry::diverged();
                    warn!(%store, contract = %topic, %command_id, "the same command came again with other content");
                }
            }
            Err(error) => warn!(%store, contract = %topic, %error, "not scheduled"),
        }
        receipt
    }
}
