//! A token with a good signature, and its checks against a request.

use std::net::IpAddr;
use std::num::NonZeroU32;

use crate::caveat::{Caveat, CaveatKind, DeliveryId};
use crate::delivery_marks::DeliveryMarks;
use crate::identifier::Identifier;
use crate::operation::{ApiNamespace, ApiOperation};
use crate::refusal::{AuthReason, Refusal, ScopeReason};
use crate::token::Token;

/// A token whose signature is good and whose caveats are understood. Whether they hold is checked for each request:
/// first [`Self::check_head`], then [`Self::check_message`]. A request may be run only if both succeed.
///
/// It can be cached; it knows nothing of revocations.
#[derive(Debug, Clone)]
pub struct VerifiedToken {
    identifier: Identifier,
    caveats: Vec<Caveat>,
    marks: DeliveryMarks,
    skew_seconds: u64,
}

/// What a server knows of a request before it has read the body. Not `non_exhaustive`: a server has to say each fact.
#[derive(Debug, Clone, Copy)]
pub struct HeadFacts {
    /// What is asked for.
    pub operation: ApiOperation,
    /// The namespace, unless it is not known yet. [`MessageFacts`] has it in any case.
    pub namespace: Option<ApiNamespace>,
    /// The address of the client, unless it is unknown, as on a Unix socket.
    pub client: Option<IpAddr>,
    /// The smallest payload that a message of the request can have by the announced length of the body; 0 if the length
    /// says nothing about it.
    pub payload_bytes_min: u64,
}

/// What a request says about one message. A request without messages is checked once, with the default.
#[derive(Debug, Clone, Copy, Default)]
pub struct MessageFacts<'a> {
    /// The namespace, unless the request is about none or about all.
    pub namespace: Option<ApiNamespace>,
    /// The topic of the message or, in a claim, one of its topics; none if that can be any topic.
    pub topic: Option<&'a str>,
    /// The tenant.
    pub tenant: Option<&'a str>,
    /// The size of the payload; 0 if the request has none.
    pub payload_bytes: u64,
    /// The delivery that is settled or extended.
    pub delivery: Option<DeliveryId>,
}

impl VerifiedToken {
    /// Parses the caveats of a token whose signature is good.
    pub(crate) fn new(token: &Token, marks: DeliveryMarks, skew_seconds: u64) -> Result<Self, Refusal> {
        let caveats: Result<Vec<_>, _> = token.caveats().map(|(_, caveat)| caveat).collect();
        let caveats = caveats.map_err(|error| ScopeReason::UnknownCaveat(error.name().to_owned()))?;
        if !caveats.iter().any(|caveat| caveat.kind() == CaveatKind::Expires) {
            return Err(AuthReason::NoExpiry.into());
        }
        Ok(Self { identifier: token.identifier().clone(), caveats, marks, skew_seconds })
    }

    /// What names the token.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// The time at which the token ends, in Unix seconds, without the tolerance for clocks. Everything attenuated from
    /// the token ends then or earlier.
    pub fn expires(&self) -> u64 {
        let times = self.caveats.iter().filter_map(|caveat| match caveat {
            Caveat::Expires(time) => Some(*time),
            _ => None,
        });
        times.min().unwrap_or(0)
    }

    /// How many seconds the token is still valid, with the tolerance for clocks; `now` is in Unix seconds.
    pub fn ends_in(&self, now: u64) -> u64 {
        self.expires().saturating_add(self.skew_seconds).saturating_sub(now)
    }

    /// Whether the token has a caveat of this kind.
    pub fn has(&self, kind: CaveatKind) -> bool {
        self.caveats.iter().any(|caveat| caveat.kind() == kind)
    }

    /// The rates of the caveats, in messages per second. The server has to enforce each of them for all tokens that have
    /// it: otherwise, tokens attenuated from one could do more together than that one.
    pub fn rates(&self) -> impl Iterator<Item = NonZeroU32> {
        self.caveats.iter().filter_map(|caveat| match caveat {
            Caveat::Rate(rate) => Some(*rate),
            _ => None,
        })
    }

    /// The names for the audit log, in the order in which they were added. The first may be the minter's; a holder can
    /// add any other.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.caveats.iter().filter_map(|caveat| match caveat {
            Caveat::Name(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The mark of a delivery, for a number that the server chose when it was received. The server can compute it again
    /// from a token with this nonce and this end, so it can recognize what was received with the token, and before it
    /// ended. Nobody else can compute it.
    pub fn delivery_mark(&self, number: u64) -> u64 {
        self.marks.of(number, self.expires())
    }

    /// Checks what is known before the body is read; `now` is in Unix seconds. A caveat about a fact that the request
    /// does not have refuses it.
    ///
    /// The expiry comes last: if [`AuthReason::Expired`] is returned, the rest of the head holds.
    pub fn check_head(&self, head: &HeadFacts, now: u64) -> Result<(), Refusal> {
        self.check(|caveat| match caveat {
            Caveat::Operations(operations) => operations.contains(&head.operation),
            // If it is not known yet, `check_message` checks it.
            Caveat::Namespaces(namespaces) => {
                head.namespace.is_none_or(|namespace| namespaces.contains(&namespace))
            }
            Caveat::Client(range) => head.client.is_some_and(|address| range.contains(address)),
            Caveat::BytesMax(bytes) => head.payload_bytes_min <= *bytes,
            // Times are checked below.
            Caveat::NotBefore(_) | Caveat::Expires(_)
            // `check_message` checks these.
            | Caveat::Topic(_) | Caveat::TopicPrefix(_) | Caveat::Tenant(_) | Caveat::Delivery(_)
            // The server limits the rate, and names limit nothing.
            | Caveat::Rate(_) | Caveat::Name(_) => true,
        })?;
        self.check_time(now)
    }

    /// Checks one message of the request. A caveat about a fact that the request does not have refuses it.
    ///
    /// A request that names a tenant needs a caveat `tenant` before the first `expires`. Holders can only add caveats
    /// at the end, and every token is minted with `expires`, so no holder can add a tenant to a token without.
    pub fn check_message(&self, message: &MessageFacts<'_>) -> Result<(), Refusal> {
        if message.tenant.is_some() && !self.reaches_tenants() {
            return Err(ScopeReason::NoTenant.into());
        }
        self.check(|caveat| match caveat {
            Caveat::Namespaces(namespaces) => {
                message.namespace.is_some_and(|namespace| namespaces.contains(&namespace))
            }
            Caveat::Topic(topic) => message.topic == Some(topic.as_str()),
            Caveat::TopicPrefix(prefix) => message.topic.is_some_and(|topic| is_below(topic, prefix)),
            Caveat::Tenant(tenant) => tenant == "*" || message.tenant == Some(tenant.as_str()),
            Caveat::BytesMax(bytes) => message.payload_bytes <= *bytes,
            Caveat::Delivery(delivery) => message.delivery == Some(*delivery),
            // `check_head` checks these.
            Caveat::Operations(_) | Caveat::Client(_) | Caveat::NotBefore(_) | Caveat::Expires(_)
            // The server limits the rate, and names limit nothing.
            | Caveat::Rate(_) | Caveat::Name(_) => true,
        })
    }

    fn check(&self, holds: impl Fn(&Caveat) -> bool) -> Result<(), Refusal> {
        match self.caveats.iter().find(|caveat| !holds(caveat)) {
            Some(caveat) => Err(ScopeReason::Caveat(caveat.kind()).into()),
            None => Ok(()),
        }
    }

    fn check_time(&self, now: u64) -> Result<(), Refusal> {
        let latest_now = now.saturating_add(self.skew_seconds);
        let is_early = |caveat: &Caveat| matches!(caveat, Caveat::NotBefore(time) if latest_now < *time);
        if self.caveats.iter().any(is_early) {
            return Err(AuthReason::NotYetValid.into());
        }
        if self.ends_in(now) == 0 {
            return Err(AuthReason::Expired.into());
        }
        Ok(())
    }

    fn reaches_tenants(&self) -> bool {
        let minted = self.caveats.iter().take_while(|caveat| caveat.kind() != CaveatKind::Expires);
        minted.into_iter().any(|caveat| caveat.kind() == CaveatKind::Tenant)
    }
}

fn is_below(topic: &str, prefix: &str) -> bool {
    topic.len() > prefix.len() && topic.starts_with(prefix)
}

#[cfg(test)]
mod tests;
