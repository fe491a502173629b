//! Building a mediator from handlers.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use oncebox_core::{Error, ErrorKind};

use super::Mediator;
use super::pipeline::{AnyOutput, Pipeline, Recovery, Stage};
use crate::commands::Command;
use crate::commands::contracts::AnyCommand;
use crate::commands::execution::Execution;
use crate::worker::Failure;

/// Builds a [`Mediator`]. Handlers are async functions that take the command and its [`Execution`] and return a
/// `Result`.
#[must_use = "call `build` to get the mediator"]
pub struct MediatorBuilder<S = ()> {
    state: S,
    pipelines: HashMap<TypeId, Pipeline>,
    error: Option<Error>,
}

impl MediatorBuilder {
    pub(super) fn new() -> Self {
        Self { state: (), pipelines: HashMap::new(), error: None }
    }

    /// Sets the state that handlers added after this call get from [`Execution::state`].
    pub fn with_state<S: Clone + Send + Sync + 'static>(self, state: S) -> MediatorBuilder<S> {
        let Self { pipelines, error, .. } = self;
        MediatorBuilder { state, pipelines, error }
    }
}

impl<S: Clone + Send + Sync + 'static> MediatorBuilder<S> {
    /// Sets the handler of a command. A command has exactly one: [`Self::build`] fails if there is a second.
    pub fn handle<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C::Output, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.erase(handler, |output| Box::new(output) as AnyOutput);
        if self.pipeline::<C>().handler.replace(step).is_some() {
            let name = type_name::<C>();
            let text = format!(
                "command `{name}` has two handlers: keep one, and add the others with `before` or `after`"
            );
            self.error.get_or_insert(Error::new(ErrorKind::Invalid, text));
        }
        self
    }

    /// Adds a handler that runs before the main one. If it fails, the main handler does not run.
    pub fn before<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.erase(handler, |()| ());
        self.pipeline::<C>().before.push(step);
        self
    }

    /// Adds a handler that runs after the main one has succeeded. If it fails, the command fails.
    pub fn after<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.erase(handler, |()| ());
        self.pipeline::<C>().after.push(step);
        self
    }

    /// Adds a handler that runs after a `before`, main or `after` handler has failed. `Ok` recovers: the command
    /// succeeds with this output. `Err` passes a failure, the same or another, to the next error handler.
    pub fn on_error<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>, Failure) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C::Output, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let state = self.state.clone();
        let recovery: Recovery = Box::new(move |command, origin, failure| {
            let run = handler(downcast(command), Execution::new(state.clone(), origin), failure);
            Box::pin(async move { Ok(Box::new(run.await.map_err(Into::into)?) as AnyOutput) })
        });
        self.pipeline::<C>().on_error.push(recovery);
        self
    }

    /// Builds the mediator. Fails if a command has two handlers.
    pub fn build(self) -> Result<Mediator, Error> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(Mediator(Arc::new(self.pipelines))),
        }
    }

    fn pipeline<C: Command>(&mut self) -> &mut Pipeline {
        self.pipelines.entry(TypeId::of::<C>()).or_default()
    }

    /// The handler with its command and output types erased.
    fn erase<C, F, Fut, T, E, O>(&self, handler: F, output: fn(T) -> O) -> Stage<O>
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: 'static,
        E: Into<Failure>,
        O: 'static,
    {
        let state = self.state.clone();
        Box::new(move |command, origin| {
            let run = handler(downcast(command), Execution::new(state.clone(), origin));
            Box::pin(async move { run.await.map(output).map_err(Into::into) })
        })
    }
}

fn downcast<C: Command>(command: AnyCommand) -> Arc<C> {
    command.downcast().expect("a pipeline only gets commands of its own type")
}
