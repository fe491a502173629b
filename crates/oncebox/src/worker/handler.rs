//! Handlers: async functions, or objects.

use std::any::TypeId;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use super::context::Context;
use super::extract::{Extract, Rejection};
use super::failure::Failure;
use crate::message::Message;

/// The result of a handler, as a boxed future.
pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// A handler, with its type erased.
pub(super) type DynHandler = Arc<dyn Fn(Context) -> HandlerFuture + Send + Sync>;

/// A handler as an object; for [`crate::Worker::handler`].
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The topic that it handles; case-sensitive.
    fn topic(&self) -> &str;

    /// Handles one delivery. It may be called again for the same message, so it must be idempotent.
    async fn handle(&self, message: Message, context: Context) -> Result<(), Failure>;
}

pub(super) fn of_object(handler: impl Handler) -> DynHandler {
    let handler = Arc::new(handler);
    Arc::new(move |context| {
        let handler = handler.clone();
        Box::pin(async move { handler.handle(context.message(), context).await })
    })
}

/// An async function of up to six arguments, each of which implements [`Extract`], that returns nothing or a `Result`.
#[diagnostic::on_unimplemented(
    message = "this is not a handler for a worker whose state is `{S}`",
    label = "not a handler",
    note = "a handler is an async function of up to 6 arguments, each an extractor (`Json<T>`, `Text`, `Bytes`, `Message`, `Context`, `State<T>`, `Tx`)",
    note = "it returns `()` or a `Result<(), E>`; its future must be `Send`",
    note = "`State<T>` needs `Worker::with_state` before `on`; a closure that captures is written `move |…| async move {{ … }}`"
)]
pub trait HandlerFn<S, Arguments>: Send + Sync + 'static {
    /// Extracts the arguments and calls the function.
    fn call(
        &self,
        context: &Context,
        state: &S,
    ) -> Result<impl Future<Output = Result<(), Failure>> + Send + 'static, Rejection>;

    /// The type of the transaction that the function runs in; none if it needs none.
    fn transaction() -> Option<TypeId>;
}

pub(super) fn of_function<S, Arguments, F>(function: F, state: S) -> DynHandler
where
    S: Clone + Send + Sync + 'static,
    F: HandlerFn<S, Arguments>,
{
    Arc::new(move |context| match function.call(&context, &state) {
        Ok(handled) => Box::pin(handled),
        Err(rejection) => Box::pin(std::future::ready(Err(rejection.into()))),
    })
}

/// A type that a handler may return.
#[diagnostic::on_unimplemented(
    message = "a handler must return `()` or a `Result<(), E>`, not `{Self}`",
    note = "`E` is any error, a string, or `Failure`"
)]
pub trait IntoResult {
    /// Converts the value to a result.
    fn into_result(self) -> Result<(), Failure>;
}

impl IntoResult for () {
    fn into_result(self) -> Result<(), Failure> {
        Ok(())
    }
}

impl<E: Into<Failure>> IntoResult for Result<(), E> {
    fn into_result(self) -> Result<(), Failure> {
        self.map_err(Into::into)
    }
}

macro_rules! handler_fn {
    ($($argument:ident)*) => {
        #[allow(non_snake_case, unused_variables, reason = "one name serves type and value; no arguments need no context")]
        impl<S, F, Fut, $($argument,)*> HandlerFn<S, ($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> Fut + Send + Sync + 'static,
            Fut: Future + Send + 'static,
            Fut::Output: IntoResult,
            $($argument: Extract<S>,)*
        {
            fn call(
                &self,
                context: &Context,
                state: &S,
            ) -> Result<impl Future<Output = Result<(), Failure>> + Send + 'static, Rejection> {
                $(let $argument = $argument::extract(context, state).map_err(Into::into)?;)*
                let handled = self($($argument),*);
                Ok(async move { handled.await.into_result() })
            }

            fn transaction() -> Option<TypeId> {
                None$(.or($argument::transaction()))*
            }
        }
    };
}

handler_fn!();
handler_fn!(A);
handler_fn!(A B);
handler_fn!(A B C);
handler_fn!(A B C D);
handler_fn!(A B C D E);
handler_fn!(A B C D E G);
