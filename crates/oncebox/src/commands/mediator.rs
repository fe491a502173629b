//! The mediator: runs a command through its handlers in this process.

mod builder;
mod pipeline;

use std::any::TypeId;
use std::any::type_name;
use std::collections::HashMap;
use std::sync::Arc;

use oncebox_core::{Error, ErrorKind};

use super::Command;
use super::contracts::AnyCommand;
use super::execution::Origin;
use crate::worker::Failure;

pub use builder::MediatorBuilder;
use pipeline::{AnyOutput, Pipeline};

/// Runs commands through their handlers: `before` handlers, the main handler, `after` handlers, and error handlers on
/// failure. Cheap to clone.
///
/// ```
/// use std::sync::Arc;
///
/// use oncebox::Failure;
/// use oncebox::commands::{Command, Execution, Mediator};
///
/// struct Add(u64, u64);
///
/// impl Command for Add {
///     type Output = u64;
/// }
///
/// async fn add(command: Arc<Add>, _: Execution) -> Result<u64, Failure> {
///     Ok(command.0 + command.1)
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mediator = Mediator::builder().handle(add).build()?;
/// assert_eq!(mediator.send(Add(2, 3)).await.unwrap(), 5);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Mediator(Arc<HashMap<TypeId, Pipeline>>);

impl Mediator {
    /// Starts building a mediator, without handlers.
    pub fn builder() -> MediatorBuilder {
        MediatorBuilder::new()
    }

    /// Runs the command at once, and returns the output of its handler, or the output that an error handler returned in
    /// its place. Fails if the command has no handler; the error names the command.
    pub async fn send<C: Command>(&self, command: C) -> Result<C::Output, Failure> {
        let output = self.run((TypeId::of::<C>(), type_name::<C>()), Arc::new(command), None).await?;
        Ok(*output.downcast().expect("a handler returns its command's output type"))
    }

    pub(super) async fn run(
        &self,
        (id, name): (TypeId, &'static str),
        command: AnyCommand,
        origin: Origin,
    ) -> Result<AnyOutput, Failure> {
        let pipeline = self.0.get(&id).filter(|pipeline| pipeline.has_handler());
        let pipeline = pipeline.ok_or_else(|| Failure::retry(unhandled(name)))?;
        pipeline.run(command, origin).await
    }

    pub(super) fn handles(&self, id: TypeId) -> bool {
        self.0.get(&id).is_some_and(Pipeline::has_handler)
    }
}

/// The error for a command without a handler.
pub(super) fn unhandled(name: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("command `{name}` has no handler: add one with `MediatorBuilder::handle`"),
    )
}
