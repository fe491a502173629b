//! One run of one handler: in its span, with its time-out, its panics caught, until it is cancelled.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::{Fence, Uid};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span, error, info};

use super::context::Context;
use super::failure::Failure;
use super::handler::Endpoint;

/// Names one delivery: a message and its lease.
pub(super) type Ticket = (Uid, Fence);

/// How a run ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished(Result<(), Failure>),
    Cancelled,
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) ticket: Ticket,
    pub(super) ending: Ending,
    pub(super) ran: Duration,
}

/// A run to be done.
pub(super) struct Attempt {
    pub(super) ticket: Ticket,
    pub(super) endpoint: Endpoint,
    pub(super) context: Context,
    pub(super) timeout: Option<Duration>,
    pub(super) cancellation: CancellationToken,
    pub(super) span: Span,
}

impl Attempt {
    pub(super) async fn run(self) -> Ended {
        let Self { ticket, endpoint, context, timeout, cancellation, span } = self;
        let started = Instant::now();
        if cancellation.is_cancelled() {
            // Lost or stopped before it began: it need not begin.
            return Ended { ticket, ending: Ending::Cancelled, ran: Duration::ZERO };
        }
        let run = async {
            info!("handling");
            let result = guarded(endpoint, context, timeout).await;
            if let Err(failure) = &result {
                error!(error = failure.text(), "the handler failed");
            }
            result
        };
        let ending = tokio::select! {
            // A result that is there counts, also if the cancellation came with it.
            biased;
            result = run.instrument(span) => Ending::Finished(result),
            () = cancellation.cancelled() => Ending::Cancelled,
        };
        Ended { ticket, ending, ran: started.elapsed() }
    }
}

async fn guarded(endpoint: Endpoint, context: Context, timeout: Option<Duration>) -> Result<(), Failure> {
    let run = catching(async move { endpoint(context).await });
    let result = match timeout {
        Some(limit) => match tokio::time::timeout(limit, run).await {
            Ok(result) => result,
            Err(_) => return Err(Failure::timed_out(limit)),
        },
        None => run.await,
    };
    result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic)))
}

/// The future's output, or what it panicked with. It is not polled again after a panic.
async fn catching<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
