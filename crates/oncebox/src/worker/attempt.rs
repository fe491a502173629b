//! One run of one handler: in its span, with its time-out, its panics caught, until it is cancelled.

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
use super::handler::Endpoint;
use super::transaction::Rollback;
use crate::health::Pulse;
use crate::telemetry;
use crate::transaction::none;

/// How long to wait before a transaction that could not be begun is tried again: from here, doubling,
const BEGIN_RETRY_SHORTEST: Duration = Duration::from_millis(50);
/// to here.
const BEGIN_RETRY_LONGEST: Duration = Duration::from_secs(2);

/// Names one delivery: a message and its lease.
pub(super) type Ticket = (Uid, Fence);

/// How a run ended.
#[derive(Debug)]
pub(super) enum Ending {
    Finished(Result<(), Failure>),
    /// It succeeded, and the store knows: it was acknowledged in the handler's own transaction.
    Told,
    Cancelled,
    /// The transaction that the handler runs in could not be begun: the handler has not run.
    NotBegun,
}

/// A run that has ended.
pub(super) struct Ended {
    pub(super) ending: Ending,
    /// How long the handler ran; none if it did not.
    pub(super) ran: Option<Duration>,
}

/// A run to be done.
pub(super) struct Attempt {
    pub(super) endpoint: Endpoint,
    pub(super) context: Context,
    pub(super) timeout: Option<Duration>,
    pub(super) cancellation: CancellationToken,
    /// The lease counts as lost from here on.
    pub(super) deadline: Instant,
    /// Set if the handler runs in a transaction.
    pub(super) transaction: Option<Beginning>,
}

/// How a handler's transaction is begun.
pub(super) struct Beginning {
    pub(super) pulse: Arc<Pulse>,
    /// For how long failures to begin are tried again, before the message is given back.
    pub(super) patience: Duration,
}

impl Attempt {
    pub(super) async fn run(self) -> Ended {
        let Self { endpoint, context, timeout, cancellation, deadline, transaction } = self;
        if cancellation.is_cancelled() || Instant::now() >= deadline {
            // Lost or stopped before it began, perhaps because somebody blocked the thread: it must not begin.
            return Ended { ending: Ending::Cancelled, ran: None };
        }
        let _rollback = match transaction {
            Some(beginning) => match beginning.begin_unless(&cancellation, &context).await {
                Ok(rollback) => Some(rollback),
                Err(ending) => return Ended { ending, ran: None },
            },
            None => None,
        };
        let started = Instant::now();
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
        Ended { ending, ran: Some(started.elapsed()) }
    }
}

impl Beginning {
    /// Begins the handler's transaction, unless that fails for too long or the attempt is cancelled before.
    async fn begin_unless(
        self,
        cancellation: &CancellationToken,
        context: &Context,
    ) -> Result<Rollback, Ending> {
        let begun = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(Ending::Cancelled),
            begun = self.begin(context) => begun.map_err(|error| {
                let (store, topic, id) = (context.store(), context.topic(), context.id());
                warn!(store, topic, id, %error, "the message is given back: the transaction of its handler cannot be begun");
                Ending::NotBegun
            }),
        };
        // However it ended: nobody tries any more.
        self.pulse.passed("begin");
        begun.map(|()| Rollback(context.slot.clone()))
    }

    /// Begins the handler's transaction, again if that fails: that no connection is free says nothing about the message.
    async fn begin(&self, context: &Context) -> Result<(), Error> {
        let Some(transactions) = context.transactions() else { return Err(none()) };
        let give_up = Instant::now() + self.patience;
        let mut pause = BEGIN_RETRY_SHORTEST;
        loop {
            let Err(error) = context.slot.begin(&*transactions).await else { return Ok(()) };
            self.pulse.failed("begin", &error);
            telemetry::call_failed("begin");
            if !error.is_retryable() || Instant::now() + pause >= give_up {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(BEGIN_RETRY_LONGEST);
        }
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
