//! The mediator: runs a command through its handlers, now, in this process.

mod builder;
mod pipeline;

use std::any::TypeId;
use std::any::type_name;
use std::collections::HashMap;
use std::sync::Arc;

use oncebox_core::{Error, Kind};

use super::Command;
use super::contracts::AnyCommand;
use super::execution::Scene;
use crate::worker::Failure;

pub use builder::MediatorBuilder;
use pipeline::{AnyOutput, Pipeline};

/// Runs commands through their handlers: those before, the one, those after, and those for errors. Cheap to clone.
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
    /// A mediator without handlers, to add some.
    pub fn builder() -> MediatorBuilder {
        MediatorBuilder::new()
    }

    /// Runs the command here and now, and gives back what its handler gave, or what an error handler made of its failure.
    /// A command without a handler is an error that names it.
    pub async fn send<C: Command>(&self, command: C) -> Result<C::Output, Failure> {
        let output = self.run((TypeId::of::<C>(), type_name::<C>()), Arc::new(command), None).await?;
        Ok(*output.downcast().expect("a handler gives what its command says"))
    }

    pub(super) async fn run(
        &self,
        (id, name): (TypeId, &'static str),
        command: AnyCommand,
        scene: Scene,
    ) -> Result<AnyOutput, Failure> {
        let pipeline = self.0.get(&id).filter(|pipeline| pipeline.has_handler());
        let pipeline = pipeline.ok_or_else(|| Failure::retry(unhandled(name)))?;
        pipeline.run(command, scene).await
    }

    pub(super) fn handles(&self, id: TypeId) -> bool {
        self.0.get(&id).is_some_and(Pipeline::has_handler)
    }
}

/// What is said of a command that nobody handles.
pub(super) fn unhandled(name: &str) -> Error {
    Error::new(
        Kind::Invalid,
        format!("command `{name}` has no handler: add one with `MediatorBuilder::handle`"),
    )
}
