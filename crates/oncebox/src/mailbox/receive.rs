//! Receiving: for a while, and waiting for what comes.

use std::num::NonZeroU128;
use std::sync::Arc;
use std::time::Duration;

use oncebox_core::limits::DURATION_MAX;
use oncebox_core::{
    Batch, Claim, Error, Interest, Invalid, Kind, Namespace, Owner, RequestId, Scope, Settled, Settlement,
    Span, Topic, Topics,
};
use tokio::time::{Instant, timeout_at};

use super::{Envelope, Mailbox, MsgId};
use crate::lease_token::LeaseToken;

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
    wait: Duration,
    request: Option<NonZeroU128>,
}

impl Receive {
    /// What is ready of this topic.
    pub fn new(topic: impl Into<Arc<str>>) -> Self {
        let (visibility, messages, bytes, request) = (None, None, None, None);
        Self { topic: topic.into(), visibility, messages, bytes, wait: Duration::ZERO, request }
    }

    /// Hidden from others for so long; then, unless it was acknowledged, it comes again.
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

    /// The same number again gets the same deliveries while they are held: draw a new one for each wish, and keep it for
    /// its repeats.
    pub fn request(mut self, request: NonZeroU128) -> Self {
        self.request = Some(request);
        self
    }
}

impl Mailbox {
    /// Takes what is ready, hidden from others until it is acknowledged or its visibility ends. If too much is in flight
    /// already, over all topics, it is [`oncebox_core::Kind::Saturated`].
    pub async fn receive(&self, wish: Receive) -> Result<Vec<Envelope>, Error> {
        Ok(self.settle_and_receive(&[], wish).await?.1)
    }

    pub(super) async fn settle_and_receive(
        &self,
        settlements: &[Settlement],
        wish: Receive,
    ) -> Result<(Vec<Settled>, Vec<Envelope>), Error> {
        let claim = self.claim(&wish)?;
        let (settled, envelopes) = self.take(settlements, &claim).await?;
        if !envelopes.is_empty() || wish.wait.is_zero() && !settlements.is_empty() {
            return Ok((settled, envelopes));
        }
        match self.wait_for(&claim, wish.wait.min(DURATION_MAX)).await {
            // What was settled must be answered: the next wish tells that too much is in flight.
            Err(error) if !settlements.is_empty() && error.kind() == Kind::Saturated => {
                Ok((settled, Vec::new()))
            }
            waited => Ok((settled, waited?)),
        }
    }

    /// Waits for a message, if there is nothing to take because nothing has come.
    async fn wait_for(&self, claim: &Claim, wait: Duration) -> Result<Vec<Envelope>, Error> {
        let until = Instant::now() + wait;
        self.check_in_flight().await?;
        let mut envelopes = Vec::new();
        while envelopes.is_empty() && Instant::now() < until {
            envelopes = self.listen(claim, until).await?;
        }
        if envelopes.is_empty() && !wait.is_zero() {
            self.check_in_flight().await?;
        }
        Ok(envelopes)
    }

    /// Waits for its turn, then until somebody rings, and takes what there is. Whoever is woken passes the turn on before it looks,
    /// and whoever gets the turn looks before it listens: what came in between is not missed.
    async fn listen(&self, claim: &Claim, until: Instant) -> Result<Vec<Envelope>, Error> {
        let topic = claim.topics.named().and_then(<[_]>::first);
        let turn = topic.map(|topic| self.turns.of(topic)).unwrap_or_default();
        let Ok(listening) = timeout_at(until, turn.lock()).await else { return Ok(Vec::new()) };
        let interest = Interest { namespace: Namespace::Mailbox, topics: claim.topics.clone() };
        let mut wakeups = self.shared.store.wakeups(interest);
        loop {
            let (_, envelopes) = self.take(&[], claim).await?;
            if !envelopes.is_empty() {
                return Ok(envelopes);
            }
            let rang = timeout_at(until.min(Instant::now() + POLL_INTERVAL), wakeups.wait()).await.is_ok();
            if rang || Instant::now() >= until {
                break;
            }
        }
        drop((listening, wakeups));
        Ok(self.take(&[], claim).await?.1)
    }

    fn claim(&self, wish: &Receive) -> Result<Claim, Error> {
        let settings = self.settings();
        let messages = wish.messages.unwrap_or(settings.messages_default);
        if !(1..=MESSAGES_MAX).contains(&messages) {
            return Err(Invalid::new("messages", "must be from 1 to 256").into());
        }
        let visibility = Span::new("visibility", settings.visibility(wish.visibility)?)?;
        let owner =
            wish.request.map_or_else(|| Ok(self.shared.owner()), |request| Owner::new(request.get()))?;
        let mut claim = Claim::new(Namespace::Mailbox, owner, visibility, Batch::new(messages)?);
        claim.request = wish.request.map(|request| RequestId::from_u128(request.get()));
        claim.topics = Topics::only([Topic::new(wish.topic.clone())?])?;
        claim.bytes_max = Some(wish.bytes.unwrap_or(settings.bytes_default));
        claim.in_flight_max = Some(settings.global_in_flight);
        Ok(claim)
    }

    async fn take(
        &self,
        settlements: &[Settlement],
        claim: &Claim,
    ) -> Result<(Vec<Settled>, Vec<Envelope>), Error> {
        let worked = self.shared.store.work(settlements, std::slice::from_ref(claim)).await?;
        let mut envelopes = Vec::new();
        for delivery in worked.deliveries.iter().flatten() {
            match Envelope::open(delivery) {
                Some(envelope) => envelopes.push(envelope),
                None => self.quarantine(LeaseToken::of(delivery), MsgId::from(delivery.uid)).await?,
            }
        }
        Ok((worked.settled, envelopes))
    }

    /// Whether something could be taken if less were in flight.
    async fn check_in_flight(&self) -> Result<(), Error> {
        let counts = self.shared.store.counts(&Scope::all(Namespace::Mailbox)).await?;
        if counts.ready > 0 && counts.leased >= self.settings().global_in_flight {
            return Err(Error::saturated(IN_FLIGHT_RETRY));
        }
        Ok(())
    }
}
