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
use tracing::{Instrument, error, info};

use super::context::Context;
use super::failure::Failure;
use super::handler::Endpoint;

/// Names one delivery: a message and its lease.
pub(super) type Ticket = (Uid, Fence);

/// How a run ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished(Result<(), Failure>),
    /// It succeeded, and the store knows: it was acknowledged in the handler's own transaction.
    Told,
    Cancelled,
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) ending: Ending,
    pub(super) ran: Duration,
}

/// A run to be done.
pub(super) struct Attempt {
    pub(super) endpoint: Endpoint,
    pub(super) context: Context,
    pub(super) timeout: Option<Duration>,
    pub(super) cancellation: CancellationToken,
    /// The lease counts as lost from here on.
    pub(super) deadline: Instant,
}

impl Attempt {
    pub(super) async fn run(self) -> Ended {
        let Self { endpoint, context, timeout, cancellation, deadline } = self;
        let started = Instant::now();
        if cancellation.is_cancelled() || started >= deadline {
            // Lost or stopped before it began, perhaps because somebody blocked the thread: it must not begin.
            return Ended { ending: Ending::Cancelled, ran: Duration::ZERO };
        }
        // However this ends, what the handler has spawned hears of it; unless the handler ended by itself.
        let stopped = cancellation.clone().drop_guard();
        let span = context.span();
        let slot = context.slot.clone();
        let run = async {
            info!("handling");
            let result = guarded(endpoint, context, timeout).await;
            let by_itself = result.is_some();
            let result = result.unwrap_or_else(|| Err(Failure::timed_out(timeout.unwrap_or_default())));
            if let Err(failure) = &result {
                error!(error = failure.text(), "the handler failed");
            }
            (result, by_itself)
        };
        let ending = tokio::select! {
            // A result that is there counts, also if the cancellation came with it.
            biased;
            (result, by_itself) = run.instrument(span) => {
                if by_itself {
                    stopped.disarm();
                }
                if slot.is_committed() { Ending::Told } else { Ending::Finished(result) }
            }
            () = cancellation.cancelled() => Ending::Cancelled,
        };
        Ended { ending, ran: started.elapsed() }
    }
}

/// The handler's result; none if its time was up.
async fn guarded(
    endpoint: Endpoint,
    context: Context,
    timeout: Option<Duration>,
) -> Option<Result<(), Failure>> {
    let run = catching(async move { endpoint(context).await });
    let result = match timeout {
        Some(limit) => tokio::time::timeout(limit, run).await.ok()?,
        None => run.await,
    };
    Some(result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))))
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
