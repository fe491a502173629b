//! The handlers of one command, their types forgotten.

use std::any::Any;
use std::pin::Pin;

use crate::commands::contracts::AnyCommand;
use crate::commands::execution::Scene;
use crate::worker::Failure;

/// What a handler gave, whatever its type.
pub(in crate::commands) type AnyOutput = Box<dyn Any + Send>;

type Outcome<T> = Pin<Box<dyn Future<Output = Result<T, Failure>> + Send>>;

/// A handler of any stage.
pub(super) type Stage<T> = Box<dyn Fn(AnyCommand, Scene) -> Outcome<T> + Send + Sync>;

/// A handler of failures.
pub(super) type Recovery = Box<dyn Fn(AnyCommand, Scene, Failure) -> Outcome<AnyOutput> + Send + Sync>;

/// All handlers of one command, each kind in the order in which they were added.
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

    pub(super) async fn run(&self, command: AnyCommand, scene: Scene) -> Result<AnyOutput, Failure> {
        let mut result = self.stages(&command, &scene).await;
        for recover in &self.on_error {
            match result {
                Ok(_) => break,
                Err(failure) => result = recover(command.clone(), scene.clone(), failure).await,
            }
        }
        result
    }

    async fn stages(&self, command: &AnyCommand, scene: &Scene) -> Result<AnyOutput, Failure> {
        for stage in &self.before {
            stage(command.clone(), scene.clone()).await?;
        }
        let handler = self.handler.as_ref().expect("only what has a handler is run");
        let output = handler(command.clone(), scene.clone()).await?;
        for stage in &self.after {
            stage(command.clone(), scene.clone()).await?;
        }
        Ok(output)
    }
}
