//! Handlers as tower services, so that layers can wrap them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::context::Context;
use super::failure::{BoxError, Failure, HandlerError};
use super::handler::{DynHandler, HandlerFuture};

/// A handler as a [`tower_service::Service`], which layers wrap.
#[derive(Clone)]
pub struct HandlerService(DynHandler);

impl Service<Context> for HandlerService {
    type Response = ();
    type Error = HandlerError;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let result = self.0(context);
        Box::pin(async move { result.await.map_err(HandlerError) })
    }
}

/// Wraps a handler in a layer.
pub(super) fn wrap<L>(layer: &L, handler: DynHandler) -> DynHandler
where
    L: Layer<HandlerService>,
    L::Service: Service<Context, Response = ()> + Clone + Send + Sync + 'static,
    <L::Service as Service<Context>>::Error: Into<BoxError>,
    <L::Service as Service<Context>>::Future: Send,
{
    let service = layer.layer(HandlerService(handler));
    Arc::new(move |context| -> HandlerFuture {
        let mut service = service.clone();
        Box::pin(async move {
            poll_fn(|task| service.poll_ready(task)).await.map_err(Failure::from_layer)?;
            service.call(context).await.map_err(Failure::from_layer)
        })
    })
}

/// A layer that was added to a worker, with its type erased.
pub(super) type AnyLayer = Box<dyn Fn(DynHandler) -> DynHandler + Send + Sync>;
