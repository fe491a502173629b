//! Typed commands: run one now, or store it now and run it later.
//!
//! A command is an application type that describes work to do; a [`Mediator`] runs it through its handlers. The caller
//! decides when: [`Mediator::send`] runs the command at once in this process. [`Scheduler::schedule`] stores it, and a
//! [`Processor`] runs it later through the same handlers, with retries, until it succeeds or becomes a dead letter.
//!
//! ```
//! use std::sync::Arc;
//!
//! use oncebox::commands::{
//!     Command, CommandStatus, Contracts, Execution, Mediator, Processor, ProcessorOptions, ScheduleOptions,
//! };
//! use oncebox::{Failure, Oncebox};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct ProcessPayment {
//!     payment: u64,
//!     cents: u64,
//! }
//!
//! impl Command for ProcessPayment {
//!     type Output = ();
//! }
//!
//! async fn process(payment: Arc<ProcessPayment>, _: Execution) -> Result<(), Failure> {
//!     assert_eq!(payment.cents, 1_250);
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), oncebox::Error> {
//! let oncebox = Oncebox::open("memory:").await?;
//! let contracts = Contracts::new().register::<ProcessPayment>("payments.commands.process-payment", 1)?;
//! let mediator = Mediator::builder().handle(process).build()?;
//!
//! let scheduler = oncebox.scheduler(&contracts);
//! let options = ScheduleOptions::default().idempotency_key("payment:17");
//! let receipt = scheduler.schedule(&ProcessPayment { payment: 17, cents: 1_250 }, options).await?;
//!
//! let processor = Processor::new(&oncebox, &contracts, &mediator, ProcessorOptions::default())?;
//! assert_eq!(processor.process_pending().await?.handled, 1);
//! assert_eq!(scheduler.status(receipt.command_id).await?, Some(CommandStatus::Completed));
//! # Ok(())
//! # }
//! ```

mod contract;
mod contracts;
mod execution;
mod mediator;
mod processor;
mod receipt;
mod record;
mod schedule;
mod scheduler;

pub use contract::Contract;
pub use contracts::Contracts;
pub use execution::Execution;
pub use mediator::{Mediator, MediatorBuilder};
pub use processor::{Processor, ProcessorOptions, Retry};
pub use receipt::{ScheduleOutcome, ScheduleReceipt};
pub use record::{CommandRecord, CommandStatus};
pub use schedule::ScheduleOptions;
pub use scheduler::Scheduler;

/// Implements [`Command`] for a type, and [`Contracted`] if it names a contract.
///
/// ```
/// use oncebox::commands::{Command, Contracts};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Command)]
/// #[command(name = "payments.commands.process-payment", version = 1)]
/// struct ProcessPayment {
///     #[command(idempotency_key)]
///     payment: String,
///     cents: u64,
/// }
///
/// /// Returns a result, so it can be sent but not scheduled.
/// #[derive(Command)]
/// #[command(output = u64)]
/// struct CountPayments;
///
/// # fn main() -> Result<(), oncebox::Error> {
/// let contracts = Contracts::new().add::<ProcessPayment>()?;
/// let payment = ProcessPayment { payment: "17".to_owned(), cents: 1_250 };
/// assert_eq!(payment.idempotency_key().as_deref(), Some("17"));
/// # Ok(())
/// # }
/// ```
///
/// A contract without a version does not compile:
/// ```compile_fail
/// # use oncebox::commands::Command;
/// #[derive(serde::Serialize, serde::Deserialize, Command)]
/// #[command(name = "payments.commands.process-payment")]
/// struct ProcessPayment;
/// ```
pub use oncebox_macros::Command;

/// A unit of work to do, as a value of an application type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a command",
    note = "use `#[derive(Command)]`, or `impl Command for … {{ type Output = (); }}`"
)]
pub trait Command: Send + Sync + 'static {
    /// What the handler returns. Only a command whose output is `()` can be scheduled: its caller no longer waits when
    /// it runs.
    type Output: Send + 'static;

    /// The key that identifies duplicates: within the deduplication window of the first command, a second one with the
    /// same key is not stored. Used when [`ScheduleOptions`] has no key; a blank key counts as none.
    fn idempotency_key(&self) -> Option<String> {
        None
    }
}

/// A command type that declares its own contract, for [`Contracts::add`]. Implemented by `#[derive(Command)]` with a
/// name and a version.
pub trait Contracted: Command<Output = ()> {
    /// The contract name that commands are stored under. It must never change.
    const NAME: &'static str;
    /// The version of the stored payload, starting at 1. Increase it with every change that makes older payloads
    /// unreadable.
    const VERSION: u32;
}

/// Marks a command that is meant to be scheduled. The marker documents intent and can serve as a trait bound; it has no
/// other effect.
pub trait InboxCommand: Command<Output = ()> {}
