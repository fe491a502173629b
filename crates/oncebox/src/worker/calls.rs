//! Store calls in flight: one that settles and claims, one that extends, one that reads the paused topics.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::{Claim, Error, ErrorKind, Extended, Extension, Namespace, Settlement, Store, Worked};
use tokio::time::Instant;

use super::attempt::DeliveryKey;
use crate::pauses::Pauses;

/// A call in flight, and what it was made for.
pub(super) struct Call<T, R> {
    response: Pin<Box<dyn Future<Output = T> + Send>>,
    pub(super) request: R,
    /// Leases are measured from here: the store cannot have granted them before.
    pub(super) sent_at: Instant,
}

/// The contents of a `work` call.
pub(super) struct WorkRequest {
    pub(super) settled: Vec<DeliveryKey>,
    pub(super) claims: Vec<Claim>,
    /// The claim group of each claim.
    pub(super) groups: Vec<usize>,
    /// When these claims were first made, if their response was lost before.
    pub(super) claimed_at: Option<Instant>,
    /// The claims follow in a call of their own: they may have to wait, and the outcomes of the settlements would wait
    /// with them.
    pub(super) claims_follow: bool,
}

/// Claims whose response was lost.
pub(super) struct Unanswered {
    pub(super) claims: Vec<Claim>,
    pub(super) groups: Vec<usize>,
    /// When they were first made.
    pub(super) since: Instant,
}

pub(super) type WorkCall = Call<Result<Worked, Error>, WorkRequest>;
pub(super) type ExtendCall = Call<Result<Vec<Extended>, Error>, Vec<DeliveryKey>>;
pub(super) type PausesCall = Call<Result<(), Error>, ()>;

impl WorkCall {
    /// Settles, and claims unless that follows.
    pub(super) fn work(
        store: Arc<dyn Store>,
        settlements: Vec<Settlement>,
        request: WorkRequest,
        limit: Duration,
    ) -> Self {
        let claims = if request.claims_follow { Vec::new() } else { request.claims.clone() };
        let call = async move { store.work(&settlements, &claims).await };
        Self { response: Box::pin(with_timeout(limit, call)), request, sent_at: Instant::now() }
    }
}

impl ExtendCall {
    pub(super) fn extend(
        store: Arc<dyn Store>,
        extensions: Vec<Extension>,
        request: Vec<DeliveryKey>,
        limit: Duration,
    ) -> Self {
        let call = async move { store.extend(&extensions).await };
        Self { response: Box::pin(with_timeout(limit, call)), request, sent_at: Instant::now() }
    }
}

impl PausesCall {
    pub(super) fn read(pauses: Arc<Pauses>, namespace: Namespace, limit: Duration) -> Self {
        let call = async move { pauses.renewed(namespace).await.map(drop) };
        Self { response: Box::pin(with_timeout(limit, call)), request: (), sent_at: Instant::now() }
    }
}

async fn with_timeout<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let text = format!("the store did not respond within {limit:?}; the call may have taken effect");
        Err(Error::new(ErrorKind::Unavailable, text))
    })
}

/// Waits for the call in flight to complete, and takes it; waits for ever if there is none.
pub(super) async fn completed<T, R>(slot: &mut Option<Call<T, R>>) -> (T, R, Instant) {
    let response = std::future::poll_fn(|task| match slot {
        Some(call) => call.response.as_mut().poll(task),
        None => Poll::Pending,
    })
    .await;
    let Some(Call { request, sent_at, .. }) = slot.take() else {
        unreachable!("only a call in flight completes")
    };
    (response, request, sent_at)
}
