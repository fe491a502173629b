//! Handlers: plain async functions, or objects.

use std::any::TypeId;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;

use super::context::Context;
use super::extract::{Extract, Rejection};
use super::failure::Failure;
use super::transaction;
use crate::message::Message;

/// What became of one delivery, as its handler sees it.
pub(super) type Handled = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send>>;

/// A handler whose type nobody needs to know.
pub(super) type Endpoint = Arc<dyn Fn(Context) -> Handled + Send + Sync>;

/// A handler as an object; for [`crate::Worker::handler`].
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// The topic it handles; case-sensitive.
    fn topic(&self) -> &str;

    /// Handles one delivery. May be called again for the same message: see that a second run does no harm.
    async fn handle(&self, message: Message, context: Context) -> Result<(), Failure>;
}

pub(super) fn of_object(handler: impl Handler) -> Endpoint {
    let handler = Arc::new(handler);
    Arc::new(move |context| {
        let handler = handler.clone();
        Box::pin(async move { handler.handle(context.message(), context).await })
    })
}

/// An async function of up to six arguments, each something to [`Extract`], that gives back nothing or a `Result`.
#[diagnostic::on_unimplemented(
    message = "this is no handler for a worker whose state is `{S}`",
    label = "not a handler",
    note = "a handler is an async function of up to 6 arguments, each an extractor (`Json<T>`, `Text`, `Bytes`, `Message`, `Context`, `State<T>`, `Tx`)",
    note = "it gives back `()` or a `Result<(), E>`; its future is `Send`",
    note = "`State<T>` needs `Worker::with_state` before `on`; a closure that captures is written `move |…| async move {{ … }}`"
)]
pub trait HandlerFn<S, Arguments>: Send + Sync + 'static {
    /// Extracts the arguments and calls the function.
    fn call(
        &self,
        context: &Context,
        state: &S,
    ) -> Result<impl Future<Output = Result<(), Failure>> + Send + 'static, Rejection>;

    /// The type of the transaction that it runs in; none if it needs none.
    fn transaction() -> Option<TypeId>;
}

pub(super) fn of_function<S, Arguments, F>(function: F, state: S) -> Endpoint
where
    S: Clone + Send + Sync + 'static,
    F: HandlerFn<S, Arguments>,
{
    let endpoint: Endpoint = Arc::new(move |context| match function.call(&context, &state) {
        Ok(handled) => Box::pin(handled),
        Err(rejection) => Box::pin(std::future::ready(Err(rejection.into()))),
    });
    if F::transaction().is_some() { transaction::around(endpoint) } else { endpoint }
}

/// What a handler may give back.
#[diagnostic::on_unimplemented(
    message = "a handler gives back `()` or a `Result<(), E>`, not `{Self}`",
    note = "`E` is any error, a text, or `Failure`"
)]
pub trait IntoResult {
    /// As a result.
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
