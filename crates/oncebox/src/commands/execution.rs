//! What the handlers of a command know about its execution.

use std::any::TypeId;
use std::sync::Arc;

use oncebox_core::{Trace, Uid};

use crate::worker::{Context, Extract, Failure, Tx};

/// One execution of a command: sent now, or stored before and run by a processor. Cheap to clone if the state is.
#[derive(Clone)]
pub struct Execution<S = ()> {
    state: S,
    scene: Scene,
}

/// Where a command runs: in a processor's hands, or in its sender's.
pub(super) type Scene = Option<Arc<Replay>>;

/// A command in a processor's hands.
pub(super) struct Replay {
    pub(super) context: Context,
    /// The type of the transaction that it runs in.
    pub(super) transaction: Option<TypeId>,
}

impl<S> Execution<S> {
    pub(super) fn new(state: S, scene: Scene) -> Self {
        Self { state, scene }
    }

    /// The mediator's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Whether the command was stored, and a processor runs it now.
    pub fn is_inbox_execution(&self) -> bool {
        self.scene.is_some()
    }

    /// The delivery, if a processor runs the command: which one it is, why the last one failed, when to stop.
    pub fn context(&self) -> Option<&Context> {
        self.scene.as_deref().map(|replay| &replay.context)
    }

    /// The id of the stored command; the one to make a handler's own writes idempotent with.
    pub fn command_id(&self) -> Option<Uid> {
        self.context().map(Context::uid)
    }

    fn trace(&self) -> Option<&Trace> {
        self.context().map(Context::trace)
    }

    /// The id of the whole story that the command belongs to, if it was scheduled with one.
    pub fn correlation(&self) -> Option<&str> {
        self.trace().and_then(Trace::correlation)
    }

    /// The id of what directly caused the command.
    pub fn causation(&self) -> Option<&str> {
        self.trace().and_then(Trace::causation)
    }

    /// The id of the tenant on whose behalf it was scheduled.
    pub fn tenant(&self) -> Option<&str> {
        self.trace().and_then(Trace::tenant)
    }

    /// The transaction that the command runs in, if its processor runs commands in transactions: what is written there and the
    /// command's completion commit together. One handler has it at a time; drop it before the handler ends.
    pub fn transaction<T: 'static>(&self) -> Result<Tx<T>, Failure> {
        let replay = self.scene.as_deref().filter(|replay| replay.transaction == Some(TypeId::of::<T>()));
        let replay = replay.ok_or_else(|| {
            Failure::retry("the command runs in no such transaction: set `Processor::in_transactions`")
        })?;
        Ok(<Tx<T> as Extract<()>>::extract(&replay.context, &())?)
    }
}
