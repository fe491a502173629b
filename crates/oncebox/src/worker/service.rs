//! Handlers as tower services, so that any layer can stand around them.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{self, Poll};

use tower_layer::Layer;
use tower_service::Service;

use super::context::Context;
use super::failure::{BoxError, Failed, Failure};
use super::handler::{Endpoint, Handled};

/// A handler as a [`tower_service::Service`]; what a layer gets to wrap.
#[derive(Clone)]
pub struct HandlerService(Endpoint);

impl Service<Context> for HandlerService {
    type Response = ();
    type Error = Failed;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

    fn poll_ready(&mut self, _: &mut task::Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let handled = self.0(context);
        Box::pin(async move { handled.await.map_err(Failed) })
    }
}

/// Puts a layer around a handler.
pub(super) fn wrap<L>(layer: &L, endpoint: Endpoint) -> Endpoint
where
    L: Layer<HandlerService>,
    L::Service: Service<Context, Response = ()> + Clone + Send + Sync + 'static,
    <L::Service as Service<Context>>::Error: Into<BoxError>,
    <L::Service as Service<Context>>::Future: Send,
{
    let service = layer.layer(HandlerService(endpoint));
    Arc::new(move |context| -> Handled {
        let mut service = service.clone();
        Box::pin(async move {
            poll_fn(|task| service.poll_ready(task)).await.map_err(Failure::from_layer)?;
            service.call(context).await.map_err(Failure::from_layer)
        })
    })
}

/// A layer that was added to a worker, whatever its type.
pub(super) type AnyLayer = Box<dyn Fn(Endpoint) -> Endpoint + Send + Sync>;
