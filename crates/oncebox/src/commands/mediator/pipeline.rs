//! The type-erased handlers of one command.

use std::any::Any;
use std::pin::Pin;

use crate::commands::contracts::AnyCommand;
use crate::commands::execution::Origin;
use crate::worker::Failure;

/// The type-erased output of a handler.
pub(in crate::commands) type AnyOutput = Box<dyn Any + Send>;

type StageFuture<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// A type-erased handler: `before`, main or `after`.
pub(super) type Stage<T> = Box<dyn Fn(AnyCommand, Origin) -> StageFuture<T> + Send + Sync>;

/// A type-erased error handler.
pub(super) type Recovery = Box<dyn Fn(AnyCommand, Origin, Failure) -> StageFuture<AnyOutput> + Send + Sync>;

/// All handlers of one command; each kind in the order in which it was added.
#[derive(Default)]
pub(super) struct Pipeline {
    pub(super) before: Vec<Stage<()>>,
    pub(super) handler: Option<Stage<AnyOutput>>,
    pub(super) after: Vec<Stage<()>>,
    pub(super) on_error: Vec<Recovery>,
}

impl Pipeline {
    pub(super) fn has_handler(&self) -> bool {
        self.handler.is_some()
    }

    pub(super) async fn run(&self, command: AnyCommand, origin: Origin) -> Result<AnyOutput, Failure> {
        let mut result = self.stages(&command, &origin).await;
        for recover in &self.on_error {
            match result {
                Ok(_) => break,
                Err(failure) => result = recover(command.clone(), origin.clone(), failure).await,
            }
        }
        result
    }

    async fn stages(&self, command: &AnyCommand, origin: &Origin) -> Result<AnyOutput, Failure> {
        for stage in &self.before {
            stage(command.clone(), origin.clone()).await?;
        }
        let handler = self.handler.as_ref().expect("the mediator only runs pipelines with a handler");
        let output = handler(command.clone(), origin.clone()).await?;
        for stage in &self.after {
            stage(command.clone(), origin.clone()).await?;
        }
        Ok(output)
    }
}
