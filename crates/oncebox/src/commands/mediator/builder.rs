//! How a mediator is put together.

use std::any::{TypeId, type_name};
use std::collections::HashMap;
use std::sync::Arc;

use oncebox_core::{Error, Kind};

use super::Mediator;
use super::pipeline::{AnyOutput, Pipeline, Recovery, Stage};
use crate::commands::Command;
use crate::commands::contracts::AnyCommand;
use crate::commands::execution::Execution;
use crate::worker::Failure;

/// Takes handlers: async functions of the command and its [`Execution`] that give back a `Result`.
#[must_use = "a mediator is there when it is built"]
pub struct MediatorBuilder<S = ()> {
    state: S,
    pipelines: HashMap<TypeId, Pipeline>,
    problem: Option<Error>,
}

impl MediatorBuilder {
    pub(super) fn new() -> Self {
        Self { state: (), pipelines: HashMap::new(), problem: None }
    }

    /// Handlers that are added from here on find this state in their [`Execution`].
    pub fn with_state<S: Clone + Send + Sync + 'static>(self, state: S) -> MediatorBuilder<S> {
        let Self { pipelines, problem, .. } = self;
        MediatorBuilder { state, pipelines, problem }
    }
}

impl<S: Clone + Send + Sync + 'static> MediatorBuilder<S> {
    /// The handler of a command. It has one: a second is refused when the mediator is built.
    pub fn handle<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C::Output, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.step(handler, |output| Box::new(output) as AnyOutput);
        if self.pipeline::<C>().handler.replace(step).is_some() {
            let name = type_name::<C>();
            let text = format!(
                "command `{name}` has two handlers: a command has one, others come before or after it"
            );
            self.problem.get_or_insert(Error::new(Kind::Invalid, text));
        }
        self
    }

    /// Runs before the handler; if it fails, the handler does not run.
    pub fn before<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.step(handler, |()| ());
        self.pipeline::<C>().before.push(step);
        self
    }

    /// Runs after the handler has succeeded; if it fails, the command has failed.
    pub fn after<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<Failure>,
    {
        let step = self.step(handler, |()| ());
        self.pipeline::<C>().after.push(step);
        self
    }

    /// Runs when a handler of any kind has failed. `Ok` swallows the failure, with what the command gives back instead; `Err` passes
    /// it on to the next error handler, or another failure in its place.
    pub fn on_error<C, F, Fut, E>(mut self, handler: F) -> Self
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>, Failure) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<C::Output, E>> + Send + 'static,
        E: Into<Failure>,
    {
        let state = self.state.clone();
        let recovery: Recovery = Box::new(move |command, scene, failure| {
            let run = handler(typed(command), Execution::new(state.clone(), scene), failure);
            Box::pin(async move { Ok(Box::new(run.await.map_err(Into::into)?) as AnyOutput) })
        });
        self.pipeline::<C>().on_error.push(recovery);
        self
    }

    /// The mediator. Refuses two handlers for one command.
    pub fn build(self) -> Result<Mediator, Error> {
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(Mediator(Arc::new(self.pipelines))),
        }
    }

    fn pipeline<C: Command>(&mut self) -> &mut Pipeline {
        self.pipelines.entry(TypeId::of::<C>()).or_default()
    }

    /// The handler with its types forgotten.
    fn step<C, F, Fut, T, E, O>(&self, handler: F, output: fn(T) -> O) -> Stage<O>
    where
        C: Command,
        F: Fn(Arc<C>, Execution<S>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: 'static,
        E: Into<Failure>,
        O: 'static,
    {
        let state = self.state.clone();
        Box::new(move |command, scene| {
            let run = handler(typed(command), Execution::new(state.clone(), scene));
            Box::pin(async move { run.await.map(output).map_err(Into::into) })
        })
    }
}

fn typed<C: Command>(command: AnyCommand) -> Arc<C> {
    command.downcast().expect("pipelines are kept by the type of their command")
}
