//! The execution context that command handlers receive.

use std::any::TypeId;
use std::sync::Arc;

use oncebox_core::{Trace, Uid};

use crate::worker::{Context, Extract, Failure, HandlerTx};

/// One execution of a command, which was either sent directly or stored and run by a processor. Cheap to clone if the
/// state is.
#[derive(Clone)]
pub struct Execution<S = ()> {
    state: S,
    origin: Origin,
}

/// Present if a processor runs the command, absent if it was sent directly.
pub(super) type Origin = Option<Arc<InboxExecution>>;

/// The execution of a stored command by a processor.
pub(super) struct InboxExecution {
    pub(super) context: Context,
    /// The type of the transaction that the command runs in, if any.
    pub(super) transaction: Option<TypeId>,
}

impl<S> Execution<S> {
    pub(super) fn new(state: S, origin: Origin) -> Self {
        Self { state, origin }
    }

    /// The mediator's state.
    pub fn state(&self) -> &S {
        &self.state
    }

    /// Whether a processor runs the command from the store, rather than [`Mediator::send`](super::Mediator::send).
    pub fn is_inbox_execution(&self) -> bool {
        self.origin.is_some()
    }

    /// The delivery, if a processor runs the command: its number, the error of the previous one, and the cancellation
    /// signal.
    pub fn context(&self) -> Option<&Context> {
        self.origin.as_deref().map(|run| &run.context)
    }

    /// The id of the stored command. Use it to make the handler's own writes idempotent.
    pub fn command_id(&self) -> Option<Uid> {
        self.context().map(Context::uid)
    }

    fn trace(&self) -> Option<&Trace> {
        self.context().map(Context::trace)
    }

    /// The correlation id that the command was scheduled with: the id of the business process that it belongs to.
    pub fn correlation(&self) -> Option<&str> {
        self.trace().and_then(Trace::correlation)
    }

    /// The causation id: the id of the message or command that directly caused this one.
    pub fn causation(&self) -> Option<&str> {
        self.trace().and_then(Trace::causation)
    }

    /// The id of the tenant that the command was scheduled for.
    pub fn tenant(&self) -> Option<&str> {
        self.trace().and_then(Trace::tenant)
    }

    /// The transaction that the command runs in: writes in it and the command's completion commit together. Only one
    /// handler can hold it at a time; drop it before the handler returns.
    ///
    /// Fails if the processor does not run commands in transactions of type `T`.
    pub fn transaction<T: 'static>(&self) -> Result<HandlerTx<T>, Failure> {
        let run = self.origin.as_deref().filter(|run| run.transaction == Some(TypeId::of::<T>()));
        let run = run.ok_or_else(|| {
            Failure::retry(
                "the command does not run in a transaction of this type: set `Processor::in_transactions`",
            )
        })?;
        Ok(<HandlerTx<T> as Extract<()>>::extract(&run.context, &())?)
    }
}
