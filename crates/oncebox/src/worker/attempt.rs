//! One run of a handler: in its tracing span, with its timeout, with panics caught, until it is cancelled.

use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::{Error, Fence, Uid};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, error, info, warn};

use super::context::Context;
use super::failure::Failure;
use super::handler::DynHandler;
use super::transaction_slot::Rollback;
use crate::loop_monitor::LoopMonitor;
use crate::telemetry;
use crate::transaction::unsupported;

/// First delay before a failed begin of a transaction is retried. It doubles with each failure.
const BEGIN_RETRY_SHORTEST: Duration = Duration::from_millis(50);
/// Maximum of that delay.
const BEGIN_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// Identifies a delivery: the message and the fence of its lease.
pub(super) type DeliveryKey = (Uid, Fence);

/// How an attempt ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished(Result<(), Failure>),
    /// The handler succeeded, and its own transaction committed the acknowledgement.
    Committed,
    Cancelled,
    /// The handler's transaction could not be begun, so the handler did not run.
    NotBegun,
}

/// An attempt that has ended.
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// How long the handler ran; none if it did not run.
    pub(super) ran: Option<Duration>,
}

/// An attempt to be made.
pub(super) struct Attempt {
    pub(super) handler: DynHandler,
    pub(super) context: Context,
    pub(super) timeout: Option<Duration>,
    pub(super) cancellation: CancellationToken,
    /// The lease counts as lost from this moment.
    pub(super) deadline: Instant,
    /// Set if the handler runs in a transaction.
    pub(super) transaction: Option<TransactionStart>,
}

/// How a handler's transaction is begun.
pub(super) struct TransactionStart {
    pub(super) monitor: Arc<LoopMonitor>,
    /// How long a failing begin is retried before the message is released.
    pub(super) retry_for: Duration,
}

impl Attempt {
    pub(super) async fn run(self) -> Ended {
        let Self { handler, context, timeout, cancellation, deadline, transaction } = self;
        if cancellation.is_cancelled() || Instant::now() >= deadline {
            // The lease was lost or the worker stopped before the handler started, perhaps because a handler blocked
            // the thread. It must not start now.
            return Ended { ending: Ending::Cancelled, ran: None };
        }
        let _rollback = match transaction {
            Some(start) => match start.begin_or_cancel(&cancellation, &context).await {
                Ok(rollback) => Some(rollback),
                Err(ending) => return Ended { ending, ran: None },
            },
            None => None,
        };
        let started = Instant::now();
        // However this ends, the tasks that the handler has spawned are cancelled, unless the handler ended by itself.
        let cancel_on_drop = cancellation.clone().drop_guard();
        let span = context.span();
        let slot = context.slot.clone();
        let run = async {
            info!("handling");
            let result = run_handler(handler, context, timeout).await;
            let by_itself = result.is_some();
            let result = result.unwrap_or_else(|| Err(Failure::timed_out(timeout.unwrap_or_default())));
            if let Err(failure) = &result {
                error!(error = failure.text(), "handler failed");
            }
            (result, by_itself)
        };
        let ending = tokio::select! {
            // A result counts even if the cancellation arrives at the same time.
            biased;
            (result, by_itself) = run.instrument(span) => {
                if by_itself {
                    cancel_on_drop.disarm();
                }
                if slot.is_committed() { Ending::Committed } else { Ending::Finished(result) }
            }
            () = cancellation.cancelled() => Ending::Cancelled,
        };
        Ended { ending, ran: Some(started.elapsed()) }
    }
}

impl TransactionStart {
    /// Begins the handler's transaction, unless that keeps failing or the attempt is cancelled first.
    async fn begin_or_cancel(
        self,
        cancellation: &CancellationToken,
        context: &Context,
    ) -> Result<Rollback, Ending> {
        let begun = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(Ending::Cancelled),
            begun = self.begin(context) => begun.map_err(|error| {
                let (store, topic, id) = (context.store(), context.topic(), context.id());
                warn!(store, topic, id, %error, "message released: could not begin the handler's transaction");
                Ending::NotBegun
            }),
        };
        // However it ended, there are no more attempts to begin, so the failures are cleared.
        self.monitor.succeeded("begin");
        begun.map(|()| Rollback(context.slot.clone()))
    }

    /// Begins the handler's transaction, with retries: a lack of free connections is not the message's fault.
    async fn begin(&self, context: &Context) -> Result<(), Error> {
        let Some(transactions) = context.transactions() else { return Err(unsupported()) };
        let give_up = Instant::now() + self.retry_for;
        let mut pause = BEGIN_RETRY_SHORTEST;
        loop {
            let Err(error) = context.slot.begin(&*transactions).await else { return Ok(()) };
            self.monitor.failed("begin", &error);
            telemetry::call_failed("begin");
            if !error.is_retryable() || Instant::now() + pause >= give_up {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BEGIN_RETRY_LONGEST);
        }
    }
}

/// The handler's result; none if it timed out.
async fn run_handler(
    handler: DynHandler,
    context: Context,
    timeout: Option<Duration>,
) -> Option<Result<(), Failure>> {
    let run = catch_panic(async move { handler(context).await });
    let result = match timeout {
        Some(limit) => tokio::time::timeout(limit, run).await.ok()?,
        None => run.await,
    };
    Some(result.unwrap_or_else(|panic| Err(Failure::panicked(&*panic))))
}

/// The future's output, or the payload of its panic. The future is not polled again after a panic.
async fn catch_panic<T>(future: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut future = pin!(future);
    poll_fn(|task| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
