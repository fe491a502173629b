//! Decides about requests before their bodies are read.

use std::sync::Arc;
use std::time::Duration;

use oncebox_capability::{ApiOperation, AuthReason, HeadFacts, KeyId, Refusal};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::grant::{Access, Grant};
use super::keys::Keys;
use super::known_token::KnownToken;
use super::rate_limits::{RateExceeded, RateLimits};
use super::refusal_counter::RefusalCounter;
use super::request::{AccessRefusal, RequestHead, Requirement};
use super::revocations::Revocations;
use crate::config::AuthConfig;

/// The state of access control that all requests share. The keys are a part of the configuration, which can be loaded
/// again.
pub(crate) struct AccessControl {
    pub(crate) revocations: Revocations,
    rates: RateLimits,
    refusals: RefusalCounter,
    /// Changes when the keys have been read again.
    reloads: watch::Sender<()>,
}

impl AccessControl {
    pub(crate) fn new(revocations: Revocations) -> Self {
        let (rates, refusals) = (RateLimits::default(), RefusalCounter::default());
        Self { revocations, rates, refusals, reloads: watch::Sender::default() }
    }

    /// The keys have been read again.
    pub(crate) fn keys_reloaded(&self) {
        self.reloads.send_replace(());
    }

    /// What the token of a request allows. [`Grant::check`] has to follow for each message.
    pub(crate) fn admit(
        &self,
        keys: &Keys,
        config: &AuthConfig,
        requirement: Requirement,
        head: &RequestHead<'_>,
    ) -> Result<Access, AccessRefusal> {
        let granted = match head.token {
            Some(token) => self.grant(keys, config, requirement, head, token),
            None => Err(AccessRefusal::NoToken),
        };
        let is_refused = matches!(granted, Err(AccessRefusal::NoToken | AccessRefusal::Token(_)));
        if is_refused && self.refusals.is_spike(Instant::now()) {
            keys.purge();
        }
        let access = granted.map(|grant| Access::Limited(Arc::new(grant)))?;
        if !counts_messages(requirement.operation) {
            self.count(&access, 1)?;
        }
        Ok(access)
    }

    fn grant(
        &self,
        keys: &Keys,
        config: &AuthConfig,
        requirement: Requirement,
        head: &RequestHead<'_>,
        token: &str,
    ) -> Result<Grant, AccessRefusal> {
        let known = keys.known(token)?;
        let token = &known.verified;
        let mut ended = self.ended(&known, config.cap_cache_ttl)?;
        let facts = HeadFacts {
            operation: requirement.operation,
            namespace: requirement.namespace,
            client: head.client,
            payload_bytes_min: head.payload_bytes_min,
        };
        match token.check_head(&facts, head.now) {
            // Everything else in the head holds.
            Err(Refusal::Auth(AuthReason::Expired)) if ended.is_none() => ended = Some(AuthReason::Expired),
            checked => checked?,
        }
        match ended {
            Some(reason) if !settles(requirement.operation) => Err(reason.into()),
            ended => Ok(Grant::new(known, requirement, ended)),
        }
    }

    /// Whether a token is revoked, or its key is retired; then it is good for the settlement of what was received with
    /// it, at most until it expires. A compromised token is refused.
    fn ended(
        &self,
        known: &Arc<KnownToken>,
        revocations_age_max: Duration,
    ) -> Result<Option<AuthReason>, AccessRefusal> {
        let revoked =
            self.revocations.current(revocations_age_max).map_err(AccessRefusal::RevocationsTooOld)?;
        match revoked.reason(known.verified.identifier()) {
            Some(AuthReason::KeyCompromised) => Err(AuthReason::KeyCompromised.into()),
            Some(reason) => Ok(Some(reason)),
            None => Ok(known.is_retired.then_some(AuthReason::KeyRetired)),
        }
    }
}

impl AccessControl {
    /// Counts messages against the rates of the token, unless they are too many.
    pub(crate) fn count(&self, access: &Access, messages: usize) -> Result<(), AccessRefusal> {
        let Some((nonce, rates)) = access.limits().and_then(|grant| grant.rates()) else { return Ok(()) };
        let messages = u32::try_from(messages).unwrap_or(u32::MAX);
        self.rates.count(nonce, &rates, messages, Instant::now()).map_err(AccessRefusal::Rate)
    }

    /// Counts messages that were received; the next request has to wait for them.
    pub(crate) fn received(&self, grant: &Grant, messages: usize) {
        if let Some((nonce, rates)) = grant.rates() {
            self.rates.add(nonce, &rates, u32::try_from(messages).unwrap_or(u32::MAX), Instant::now());
        }
    }

    /// How long a receiver has to wait because of what it has received.
    pub(crate) fn must_wait(&self, grant: &Grant) -> Option<Duration> {
        let (nonce, rates) = grant.rates()?;
        match self.rates.count(nonce, &rates, 0, Instant::now()) {
            Err(RateExceeded::Token(wait)) => Some(wait),
            Ok(()) | Err(RateExceeded::Table) => None,
        }
    }

    /// Completes when the token has ended: it expires or is revoked, or its key is no longer good. `is_key_good` looks at the
    /// keys that were read last.
    pub(crate) async fn until_end(
        &self,
        grant: &Grant,
        revocations_age_max: Duration,
        now: impl Fn() -> u64,
        is_key_good: impl Fn(&KeyId) -> bool,
    ) {
        let token = grant.token();
        loop {
            let changes = self.revocations.changes();
            let mut reloads = self.reloads.subscribe();
            let left = token.verified.ends_in(now());
            let is_good = is_key_good(&token.verified.identifier().key);
            if left == 0 || !is_good || !matches!(self.ended(token, revocations_age_max), Ok(None)) {
                return;
            }
            // Now and then, because revocations that cannot be read become too old without a change.
            let recheck = Duration::from_secs(left).min(revocations_age_max / 2);
            tokio::select! {
                () = changes => {}
                // The sender lives as long as the server.
                _ = reloads.changed() => {}
                () = sleep(recheck) => {}
            }
        }
    }
}

/// Whether a handler counts the messages itself. Settlements do not count: a worker could not end what it has begun.
fn counts_messages(operation: ApiOperation) -> bool {
    let sends_or_receives = matches!(
        operation,
        ApiOperation::Send | ApiOperation::SendBatch | ApiOperation::Recv | ApiOperation::RecvStream
    );
    sends_or_receives || settles(operation) || operation == ApiOperation::Extend
}

/// Whether an operation may settle deliveries that were received before the token ended.
fn settles(operation: ApiOperation) -> bool {
    matches!(operation, ApiOperation::Ack | ApiOperation::Nack | ApiOperation::Settle | ApiOperation::Work)
}

#[cfg(test)]
mod tests;
