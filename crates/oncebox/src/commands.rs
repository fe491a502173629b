//! Commands: run now, or store now and run later.
//!
//! A command is a type of the application's; a [`Mediator`] runs it through its handlers. Whoever has one chooses at the call:
//! [`Mediator::send`] runs it here and now, [`Scheduler::schedule`] stores it, and a [`Processor`] runs it later, through the same
//! handlers, again until it succeeds or is given up.
//!
//! ```
//! use std::sync::Arc;
//!
//! use oncebox::commands::{Command, Contracts, Execution, Mediator, Processor, ProcessorOptions, ScheduleOptions, Status};
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
//! assert_eq!(scheduler.status(receipt.command_id).await?, Some(Status::Completed));
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
pub use receipt::{Outcome, Receipt};
pub use record::{Record, Status};
pub use schedule::ScheduleOptions;
pub use scheduler::Scheduler;

/// Makes a type a [`Command`], with the contract that it is stored under.
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
/// /// One that gives something back; it can be sent and not scheduled.
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
/// A contract has a version:
/// ```compile_fail
/// # use oncebox::commands::Command;
/// #[derive(serde::Serialize, serde::Deserialize, Command)]
/// #[command(name = "payments.commands.process-payment")]
/// struct ProcessPayment;
/// ```
pub use oncebox_macros::Command;

/// A wish of the application's: what shall be done, as a value.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no command",
    note = "say `#[derive(Command)]`, or `impl Command for … {{ type Output = (); }}`"
)]
pub trait Command: Send + Sync + 'static {
    /// What its handler gives back. Only a command that gives back nothing can be scheduled: whoever schedules it is not there
    /// any more when it runs.
    type Output: Send + 'static;

    /// What makes two of them the same: while the first is remembered, the second is not stored. Used unless the call gives a
    /// key; blank means none.
    fn idempotency_key(&self) -> Option<String> {
        None
    }
}

/// A command that names its contract itself; what `#[derive(Command)]` with a name and a version makes. For
/// [`Contracts::add`].
pub trait Contracted: Command<Output = ()> {
    /// The name it is stored under, which never changes.
    const NAME: &'static str;
    /// The version of what is stored, from 1: a new one for each change that older payloads do not survive.
    const VERSION: u32;
}

/// Marks a command that is meant to be scheduled: seen in reviews, and usable as a bound. It changes nothing.
pub trait InboxCommand: Command<Output = ()> {}
