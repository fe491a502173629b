//! Receiving: for a while, and waiting for what comes.

use std::num::NonZeroU128;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::DURATION_MAX;
use oncebox_core::{
    Batch, Bound, Claim, Error, Fingerprint, Interest, Invalid, Kind, Namespace, Owner, RequestId, Scope,
    Settled, Settlement, Span, Topic, Topics, WorkerName,
};
use tokio::time::{Instant, timeout_at};

use super::{Envelope, Mailbox, MsgId, log};

/// While it waits for messages, the store is asked at least so often: wake-ups are hints.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// When to come again while too much is in flight.
const IN_FLIGHT_RETRY: Duration = Duration::from_secs(1);
/// Messages that one call receives, at most.
const MESSAGES_MAX: u32 = 256;

/// What a receiver wants.
#[derive(Debug, Clone)]
#[must_use]
pub struct Receive {
    topic: Arc<str>,
    visibility: Option<Duration>,
    messages: Option<u32>,
    bytes: Option<u64>,
    pub(super) wait: Duration,
    request: Option<NonZeroU128>,
    worker: Option<Arc<str>>,
}

impl Receive {
    /// What is ready of this topic.
    pub fn new(topic: impl AsRef<str>) -> Self {
        Self {
            topic: topic.as_ref().into(),
            visibility: None,
            messages: None,
            bytes: None,
            wait: Duration::ZERO,
            request: None,
            worker: None,
        }
    }

    /// Hidden from others for so long; then, unless it was acknowledged, it comes again. If not given, what the topic is set to.
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.visibility = Some(visibility);
        self
    }

    /// So many messages at most: 1 to 256.
    pub fn messages(mut self, messages: u32) -> Self {
        self.messages = Some(messages);
        self
    }

    /// So many payload bytes at most; the first message comes whatever its size.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Waits so long for the first message, if none is ready. That too much is in flight is told before the wait or after it.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// What the receiver calls itself, for operators: 1 to 128 printable ASCII characters.
    pub fn worker(mut self, name: impl AsRef<str>) -> Self {
        self.worker = Some(name.as_ref().into());
        self
    }

    /// The same number again gets the same deliveries while they are held: draw a new one for each wish, and keep it for
    /// its repeats.
    pub fn request(mut self, request: NonZeroU128) -> Self {
        self.request = Some(request);
        self
    }
}

/// What a call of [`Mailbox::receive`] brought. Iterating over it gives the envelopes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Received {
    /// The messages, in order.
    pub envelopes: Vec<Envelope>,
    /// Messages that were ready, but are not what was sent. They are dead letters now, reason `integrity`.
    pub damaged: Vec<Damaged>,
}

/// A stored message that does not match its hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// The identity of the message.
    pub msg_id: MsgId,
    /// What ties it to what it belongs to.
    pub corr_id: String,
}

impl Received {
    /// Whether nothing was ready, neither whole nor damaged.
    pub fn is_nothing(&self) -> bool {
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
    /// Takes what is ready, hidden from others until it is acknowledged or its visibility ends. If too much is in flight
    /// already, over all topics, it is [`oncebox_core::Kind::Saturated`].
    pub async fn receive(&self, wish: Receive) -> Result<Received, Error> {
        let claim = self.claim(&wish)?;
        Ok(self.settle_and_receive(&[], &claim, wish.wait).await?.1)
    }

    pub(super) async fn settle_and_receive(
        &self,
        settlements: &[Settlement],
        claim: &Claim,
        wait: Duration,
    ) -> Result<(Vec<Settled>, Received), Error> {
        let (settled, received) = self.take(settlements, claim).await?;
        if !received.is_nothing() || wait.is_zero() && !settlements.is_empty() {
            return Ok((settled, received));
        }
        match self.wait_for(claim, wait.min(DURATION_MAX)).await {
            // What was settled must be answered: the next wish tells that too much is in flight.
            Err(error) if !settlements.is_empty() && error.kind() == Kind::Saturated => {
                Ok((settled, Received::default()))
            }
            waited => Ok((settled, waited?)),
        }
    }

    /// Waits for a message, if there is nothing to take because nothing has come.
    async fn wait_for(&self, claim: &Claim, wait: Duration) -> Result<Received, Error> {
        let until = Instant::now() + wait;
        self.check_in_flight().await?;
        let mut received = Received::default();
        while received.is_nothing() && Instant::now() < until {
            received = self.listen(claim, until).await?;
        }
        if received.is_nothing() && !wait.is_zero() {
            self.check_in_flight().await?;
        }
        Ok(received)
    }

    /// Waits for its turn, then until somebody rings, and takes what there is. Whoever is woken passes the turn on before it looks,
    /// and whoever gets the turn looks before it listens: what came in between is not missed.
    async fn listen(&self, claim: &Claim, until: Instant) -> Result<Received, Error> {
        let topic = claim.topics.named().and_then(<[_]>::first);
        let turn = topic.map(|topic| self.turns.of(topic)).unwrap_or_default();
        let Ok(listening) = timeout_at(until, turn.lock()).await else { return Ok(Received::default()) };
        let interest = Interest { namespace: Namespace::Mailbox, topics: claim.topics.clone() };
        let mut wakeups = self.shared.store.wakeups(interest);
        loop {
            let (_, received) = self.take(&[], claim).await?;
            if !received.is_nothing() {
                return Ok(received);
            }
            let rang = timeout_at(until.min(Instant::now() + POLL_INTERVAL), wakeups.wait()).await.is_ok();
            if rang || Instant::now() >= until {
                break;
            }
        }
        drop((listening, wakeups));
        Ok(self.take(&[], claim).await?.1)
    }

    /// What the store is asked for; [`Kind::Invalid`] if it cannot be.
    pub(super) fn claim(&self, wish: &Receive) -> Result<Claim, Error> {
        let settings = self.settings();
        let messages = wish.messages.unwrap_or(settings.messages_default);
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(Invalid::new("messages", "must be from 1 to 256").into());
        }
        let visibility = match wish.visibility {
            Some(asked) => settings.checked_visibility(asked)?,
            None => settings.visibility_of(&wish.topic),
        };
        let visibility = Span::new("visibility", visibility)?;
        let owner = wish.request.map_or_else(|| self.shared.owner(), owner_of);
        let mut claim = Claim::new(Namespace::Mailbox, owner, visibility, Batch::new(messages)?);
        claim.request = wish.request.map(|request| RequestId::from_u128(request.get()));
        claim.worker = wish.worker.clone().map(WorkerName::new).transpose()?;
        claim.topics = Topics::only([Topic::new(wish.topic.clone())?])?;
        claim.bytes_max = Some(wish.bytes.unwrap_or(settings.bytes_default));
        claim.in_flight_max = Some(settings.global_in_flight);
        Ok(claim)
    }

    async fn take(
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
                None => received.damaged.push(self.quarantine(delivery).await?),
            }
        }
        Ok((worked.settled, received))
    }

    /// Whether something could be taken if less were in flight.
    async fn check_in_flight(&self) -> Result<(), Error> {
        let counts = self.shared.store.counts(&Scope::all(Namespace::Mailbox)).await?;
        let bound = Bound::new(Bound::IN_FLIGHT, counts.leased, self.settings().global_in_flight);
        if counts.ready > 0 && bound.used >= bound.limit {
            return Err(Error::saturated(IN_FLIGHT_RETRY, bound));
        }
        Ok(())
    }
}

/// The owner of the deliveries that a request gets: the same for its repeats. Receipts carry the owner, so it must not tell the
/// request: whoever knows that gets the same deliveries.
fn owner_of(request: NonZeroU128) -> Owner {
    let mut bytes = b"oncebox receiver 1".to_vec();
    bytes.extend_from_slice(&request.get().to_le_bytes());
    let hash = Fingerprint::of_bytes(&bytes);
    let first = hash.as_bytes().first_chunk().copied().expect("a hash has 32 bytes");
    Owner::new(u128::from_le_bytes(first) | 1).expect("its last bit is set")
}
