//! Receiving messages for a visibility timeout, with long polling.

use std::num::NonZeroU128;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::DURATION_MAX;
use oncebox_core::{
    Batch, Bound, Claim, Error, ErrorKind, Fingerprint, Interest, Invalid, Namespace, Owner, RequestId,
    Scope, Settled, Settlement, Span, Topic, Topics, WorkerName,
};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Envelope, Mailbox, MsgId, log};

/// How often a waiting receiver polls the store, because wake-ups are only hints.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// The suggested retry delay while too many messages are in flight.
const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);
/// Maximum number of messages that one call receives.
const MESSAGES_MAX: u32 = 256;

/// A request to receive messages of one topic.
#[derive(Debug, Clone)]
#[must_use]
pub struct Receive {
    topic: Arc<str>,
    visibility: Option<Duration>,
    messages: Option<u32>,
    bytes: Option<u64>,
    wait: Duration,
    cancellation: Option<CancellationToken>,
    request: Option<NonZeroU128>,
    owner: Option<Owner>,
    worker: Option<Arc<str>>,
}

impl Receive {
    /// Requests messages of this topic that are ready.
    pub fn new(topic: impl AsRef<str>) -> Self {
        Self {
            topic: topic.as_ref().into(),
            visibility: None,
            messages: None,
            bytes: None,
            wait: Duration::ZERO,
            cancellation: None,
            request: None,
            owner: None,
            worker: None,
        }
    }

    /// Sets the visibility timeout: how long messages are hidden from other receivers. A message that is not
    /// acknowledged by then is delivered again. Default: the setting of the topic.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// Sets the maximum number of messages: 1 to 256.
    pub fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    /// Sets the maximum number of payload bytes. The first message is delivered regardless of its size.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Sets how long to wait for the first message if none is ready. An error because too many messages are in flight
    /// is returned before or after the wait, not during it.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Ends the wait when this token is cancelled. The wait claims nothing from then on, so that messages are not hidden
    /// by a receiver that is gone. What is ready when the call begins is received in any case.
    pub fn cancelled_by(mut self, cancellation: CancellationToken) -> Self {
        self.cancellation = Some(cancellation);
        self
    }

    /// Sets who holds the deliveries; their receipts contain it. Use another owner for each request, and the same for its
    /// repeats. Default: a random owner, or one that the request id determines.
    pub fn owner(mut self, owner: Owner) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Sets the name of the receiver that operators see: 1 to 128 printable ASCII characters.
    pub fn worker(mut self, name: impl AsRef<str>) -> Self {
        self.worker = Some(name.as_ref().into());
        self
    }

    /// Sets the request id, which makes the request idempotent: repeating it returns the same deliveries while they are
    /// held. Use a new random number for each request, and the same number for its repeats.
    pub fn request(mut self, request: NonZeroU128) -> Self {
        self.request = Some(request);
        self
    }
}

/// The result of [`Mailbox::receive`]. Iterating over it yields the envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Received {
    /// The messages, in order.
    pub envelopes: Vec<Envelope>,
    /// Messages that were ready but failed their integrity check. They are dead letters now, reason `integrity`.
    pub damaged: Vec<Damaged>,
    /// Whether nothing was received because the topic is paused.
    pub paused: bool,
}

/// A stored message that does not match its hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// The id of the message.
    pub msg_id: MsgId,
    /// The correlation id of the message.
    pub corr_id: String,
}

impl Received {
    /// Whether nothing was received, neither envelopes nor damaged messages.
    pub fn is_empty(&self) -> bool {
        self.envelopes.is_empty() && self.damaged.is_empty()
    }
}

impl IntoIterator for Received {
    type Item = Envelope;
    type IntoIter = std::vec::IntoIter<Envelope>;

    fn into_iter(self) -> Self::IntoIter {
        self.envelopes.into_iter()
    }
}

impl Mailbox {
    /// Receives messages that are ready. They are hidden from other receivers until they are acknowledged or their
    /// visibility timeout ends. Fails with [`ErrorKind::Saturated`] if too many messages are in flight over all topics.
    pub async fn receive(&self, request: Receive) -> Result<Received, Error> {
        let claim = self.claim(&request)?;
        Ok(self.settle_and_receive(&[], &claim, &Wait::of(&request)).await?.1)
    }

    pub(super) async fn settle_and_receive(
        &self,
        settlements: &[Settlement],
        claim: &Claim,
        wait: &Wait,
    ) -> Result<(Vec<Settled>, Received), Error> {
        let (settled, mut received) = self.settle_and_claim(settlements, claim).await?;
        if received.is_empty() && (!wait.time.is_zero() || settlements.is_empty()) {
            received = match self.wait_for_message(claim, wait).await {
                // The outcomes of the settlements must be returned: the next request fails with `Saturated` instead.
                Err(error) if !settlements.is_empty() && error.kind() == ErrorKind::Saturated => {
                    Received::default()
                }
                waited => waited?,
            };
        }
        received.paused = received.is_empty() && self.is_paused(claim).await;
        Ok((settled, received))
    }

    /// Whether the topic of a claim is paused for receiving, as far as is known.
    async fn is_paused(&self, claim: &Claim) -> bool {
        let paused = self.shared.pauses.current(Namespace::Mailbox).await;
        let topics = claim.topics.named().unwrap_or_default();
        paused.is_ok_and(|paused| !topics.iter().any(|topic| paused.delivers(topic)))
    }

    /// Waits for a message, unless messages are ready but too many are in flight.
    async fn wait_for_message(&self, claim: &Claim, wait: &Wait) -> Result<Received, Error> {
        self.check_in_flight().await?;
        let mut received = Received::default();
        while received.is_empty() && !wait.is_over() {
            received = self.listen(claim, wait).await?;
        }
        if received.is_empty() && !wait.time.is_zero() && !wait.is_cancelled() {
            self.check_in_flight().await?;
        }
        Ok(received)
    }

    /// Acquires the listener lock of the topic, waits for a wake-up, and claims what is ready. A receiver releases the
    /// lock after a wake-up before it claims, and the next holder claims before it listens, so messages that arrive in
    /// between are not missed.
    async fn listen(&self, claim: &Claim, wait: &Wait) -> Result<Received, Error> {
        let topic = claim.topics.named().and_then(<[_]>::first);
        let lock = topic.map(|topic| self.waiters.of(topic)).unwrap_or_default();
        let Some(listening) = wait.run(lock.lock()).await else { return Ok(Received::default()) };
        let interest = Interest { namespace: Namespace::Mailbox, topics: claim.topics.clone() };
        let mut wakeups = self.shared.store.wakeups(interest);
        loop {
            let (_, received) = self.settle_and_claim(&[], claim).await?;
            if !received.is_empty() {
                return Ok(received);
            }
            let poll_at = Instant::now() + POLL_INTERVAL;
            let woken = wait.run(timeout_at(poll_at, wakeups.wait())).await;
            if wait.is_cancelled() {
                return Ok(Received::default());
            }
            if !matches!(woken, Some(Err(_))) || Instant::now() >= wait.until {
                break;
            }
        }
        drop((listening, wakeups));
        Ok(self.settle_and_claim(&[], claim).await?.1)
    }

    /// The claim for a request. Fails with [`ErrorKind::Invalid`] if a value is out of bounds.
    pub(super) fn claim(&self, request: &Receive) -> Result<Claim, Error> {
        let settings = self.settings();
        let messages = request.messages.unwrap_or(settings.messages_default);
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(Invalid::new("messages", "must be from 1 to 256").into());
        }
        let visibility = match request.visibility {
            Some(asked) => settings.checked_visibility(asked)?,
            None => settings.visibility_of(&request.topic),
        };
        let visibility = Span::new("visibility", visibility)?;
        let owner = request.owner.or(request.request.map(owner_of));
        let owner = owner.unwrap_or_else(|| self.shared.owner());
        let mut claim = Claim::new(Namespace::Mailbox, owner, visibility, Batch::new(messages)?);
        claim.request = request.request.map(|request| RequestId::from_u128(request.get()));
        claim.worker = request.worker.clone().map(WorkerName::new).transpose()?;
        claim.topics = Topics::only([Topic::new(request.topic.clone())?])?;
        claim.bytes_max = Some(request.bytes.unwrap_or(settings.bytes_default));
        claim.in_flight_max = Some(settings.global_in_flight);
        Ok(claim)
    }

    /// Settles and claims in one call of the store, and checks the integrity of what was claimed.
    async fn settle_and_claim(
        &self,
        settlements: &[Settlement],
        claim: &Claim,
    ) -> Result<(Vec<Settled>, Received), Error> {
        let worked = self.shared.store.work(settlements, std::slice::from_ref(claim)).await?;
        let mut received = Received::default();
        for delivery in worked.deliveries.iter().flatten() {
            match Envelope::open(delivery) {
                Some(envelope) => {
                    log::delivered(&self.shared.name, delivery);
                    received.envelopes.push(envelope);
                }
                None => received.damaged.push(self.dead_letter_damaged(delivery).await?),
            }
        }
        Ok((worked.settled, received))
    }

    /// Fails with [`ErrorKind::Saturated`] if messages are ready but the in-flight limit is reached.
    async fn check_in_flight(&self) -> Result<(), Error> {
        let counts = self.shared.store.counts(&Scope::all(Namespace::Mailbox)).await?;
        let bound = Bound::new(Bound::IN_FLIGHT, counts.leased, self.settings().global_in_flight);
        if counts.ready > 0 && bound.used >= bound.limit {
            return Err(Error::saturated(IN_FLIGHT_RETRY, bound));
        }
        Ok(())
    }
}

/// How long a receiver waits for its first message.
pub(super) struct Wait {
    time: Duration,
    until: Instant,
    cancellation: Option<CancellationToken>,
}

impl Wait {
    pub(super) fn of(request: &Receive) -> Self {
        let time = request.wait.min(DURATION_MAX);
        Self { time, until: Instant::now() + time, cancellation: request.cancellation.clone() }
    }

    fn is_cancelled(&self) -> bool {
        self.cancellation.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.is_cancelled()
    }

    /// Returns the output of the future, or `None` if the wait is over first.
    async fn run<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let output = timeout_at(self.until, future);
        match &self.cancellation {
            Some(cancellation) => cancellation.run_until_cancelled(output).await?.ok(),
            None => output.await.ok(),
        }
    }
}

/// The owner of the deliveries of a request; the same for its repeats. Receipts contain the owner, so it must not
/// reveal the request id: any caller that knows the id gets the same deliveries.
fn owner_of(request: NonZeroU128) -> Owner {
    let mut bytes = b"oncebox receiver 1".to_vec();
    bytes.extend_from_slice(&request.get().to_le_bytes());
    let hash = Fingerprint::of_bytes(&bytes);
    let first = hash.as_bytes().first_chunk().copied().expect("a hash has 32 bytes");
    Owner::new(u128::from_le_bytes(first) | 1).expect("its last bit is set")
}
