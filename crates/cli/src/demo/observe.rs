//! A layer around every handler that tells when it begins and how it ends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{self, Poll};

use oncebox::{Context, Failed, HandlerService};
use tokio::sync::mpsc::UnboundedSender;
use tower_layer::Layer;
use tower_service::Service;

use super::event::{Ending, Event};
use super::handlers::World;

/// Tells about one worker's handlers.
#[derive(Clone)]
pub(super) struct Observe {
    pub(super) worker: &'static str,
    pub(super) world: Arc<World>,
    /// Never long: each delivery adds two events, and the demo reads all the time. Told from `Drop`, where nothing waits.
    pub(super) events: UnboundedSender<Event>,
}

impl Layer<HandlerService> for Observe {
    type Service = Observed;

    fn layer(&self, handler: HandlerService) -> Observed {
        Observed { handler, observe: self.clone() }
    }
}

/// A handler that is observed.
#[derive(Clone)]
pub(super) struct Observed {
    handler: HandlerService,
    observe: Observe,
}

impl Service<Context> for Observed {
    type Response = ();
    type Error = Failed;
    type Future = Pin<Box<dyn Future<Output = Result<(), Failed>> + Send>>;

    fn poll_ready(&mut self, context: &mut task::Context<'_>) -> Poll<Result<(), Failed>> {
        self.handler.poll_ready(context)
    }

    fn call(&mut self, context: Context) -> Self::Future {
        let mut run = Run::begin(&self.observe, &context);
        let handled = self.handler.call(context);
        Box::pin(async move {
            let result = handled.await;
            run.end(match &result {
                Ok(()) => Ending::Finished,
                Err(Failed(failure)) => Ending::Failed(failure.text().to_owned()),
            });
            result
        })
    }
}

/// One run of a handler. One that is dropped before its end panicked or was interrupted.
struct Run {
    part: Option<usize>,
    observe: Observe,
}

impl Run {
    fn begin(observe: &Observe, context: &Context) -> Self {
        let observe = observe.clone();
        let part = observe.world.script.find(context.id());
        let (worker, delivery) = (observe.worker, context.delivery());
        if let Some(part) = part {
            // Nobody listens any more when the demo is over.
            let _ = observe.events.send(Event::Started { part, worker, delivery });
        }
        Self { part, observe }
    }

    fn end(&mut self, ending: Ending) {
        if let Some(part) = self.part.take() {
            let _ = self.observe.events.send(Event::Ended { part, worker: self.observe.worker, ending });
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.end(if std::thread::panicking() { Ending::Panicked } else { Ending::Interrupted });
    }
}
