//! Calls to the store that are under way: one that settles and claims, one that extends.

use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use oncebox_core::{Claim, Error, Extended, Extension, Kind, Settlement, Store, Worked};
use tokio::time::Instant;

use super::attempt::Ticket;

/// A call under way, and what it is about.
pub(super) struct Call<T, A> {
    answer: Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>,
    pub(super) about: A,
    /// Leases count from here: the store cannot have granted them before.
    pub(super) sent_at: Instant,
}

/// What a call to work is about.
pub(super) struct Work {
    pub(super) settled: Vec<Ticket>,
    pub(super) claims: Vec<Claim>,
    /// The wish that each claim is for.
    pub(super) wishes: Vec<usize>,
    /// When these claims were made first, if their answer was lost before.
    pub(super) claimed_at: Option<Instant>,
}

/// Claims whose answer was lost.
pub(super) struct Unanswered {
    pub(super) claims: Vec<Claim>,
    pub(super) wishes: Vec<usize>,
    /// When they were made first.
    pub(super) since: Instant,
}

pub(super) type WorkCall = Call<Worked, Work>;
pub(super) type ExtendCall = Call<Vec<Extended>, Vec<Ticket>>;

impl WorkCall {
    pub(super) fn work(
        store: Arc<dyn Store>,
        settlements: Vec<Settlement>,
        about: Work,
        limit: Duration,
    ) -> Self {
        let claims = about.claims.clone();
        let call = async move { store.work(&settlements, &claims).await };
        Self { answer: Box::pin(limited(limit, call)), about, sent_at: Instant::now() }
    }
}

impl ExtendCall {
    pub(super) fn extend(
        store: Arc<dyn Store>,
        extensions: Vec<Extension>,
        about: Vec<Ticket>,
        limit: Duration,
    ) -> Self {
        let call = async move { store.extend(&extensions).await };
        Self { answer: Box::pin(limited(limit, call)), about, sent_at: Instant::now() }
    }
}

async fn limited<T>(limit: Duration, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let text = format!("the store did not answer within {limit:?}: what was asked may have happened");
        Err(Error::new(Kind::Unavailable, text))
    })
}

/// The call that was under way, once it is answered; waits for ever if there is none.
pub(super) async fn answered<T, A>(slot: &mut Option<Call<T, A>>) -> (Result<T, Error>, A, Instant) {
    let answer = std::future::poll_fn(|task| match slot {
        Some(call) => call.answer.as_mut().poll(task),
        None => Poll::Pending,
    })
    .await;
    let Some(Call { about, sent_at, .. }) = slot.take() else {
        unreachable!("only a call that is there is answered")
    };
    (answer, about, sent_at)
}
