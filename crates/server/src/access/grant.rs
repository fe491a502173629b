//! What the token of a request allows.

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use oncebox::mailbox::LeaseToken;
use oncebox_capability::{
    ApiNamespace, AuthReason, Caveat, CaveatKind, DeliveryId, MessageFacts, Nonce, Token, TokenError,
};
use oncebox_core::Owner;

use super::known_token::KnownToken;
use super::request::{AccessRefusal, Requirement};

/// Whether a request is limited by a token.
pub(crate) enum Access {
    /// The server has no keys, or the route needs no token.
    Open,
    Limited(Arc<Grant>),
}

/// A request whose token allows its head. Each of its messages has to be checked.
pub(crate) struct Grant {
    known: Arc<KnownToken>,
    namespace: Option<ApiNamespace>,
    ended: Option<AuthReason>,
    is_checked: AtomicBool,
}

impl Access {
    /// The limits of the request, if there are any.
    pub(crate) fn limits(&self) -> Option<&Arc<Grant>> {
        match self {
            Self::Open => None,
            Self::Limited(grant) => Some(grant),
        }
    }

    /// Checks one message of the request.
    pub(crate) fn check(&self, message: &MessageFacts<'_>) -> Result<(), AccessRefusal> {
        self.limits().map_or(Ok(()), |grant| grant.check(message))
    }

    /// Why the token has ended. Then only settlements of what was received with it are allowed.
    pub(crate) fn ended(&self) -> Option<AuthReason> {
        self.limits().and_then(|grant| grant.ended)
    }

    /// The owner of deliveries, which shows with which token they were received; none without a token.
    pub(crate) fn owner(&self, number: u64) -> Option<Owner> {
        let mark = self.limits()?.known.verified.delivery_mark(number);
        // One owner in 2^128 is not valid; then the store chooses another, whose deliveries are not recognized.
        Owner::new(u128::from(number) << 64 | u128::from(mark)).ok()
    }
}

impl Grant {
    pub(super) fn new(known: Arc<KnownToken>, requirement: Requirement, ended: Option<AuthReason>) -> Self {
        Self { known, namespace: requirement.namespace, ended, is_checked: AtomicBool::new(false) }
    }

    /// Checks one message of the request. The namespace of the route need not be repeated.
    fn check(&self, message: &MessageFacts<'_>) -> Result<(), AccessRefusal> {
        self.is_checked.store(true, Ordering::Relaxed);
        let namespace = message.namespace.or(self.namespace);
        Ok(self.known.verified.check_message(&MessageFacts { namespace, ..*message })?)
    }

    /// Says that there is nothing to check, because nothing can change.
    pub(crate) fn needs_no_check(&self) {
        self.is_checked.store(true, Ordering::Relaxed);
    }

    /// Whether [`Self::check`] was called.
    pub(crate) fn is_checked(&self) -> bool {
        self.is_checked.load(Ordering::Relaxed)
    }

    /// Whether it depends on the message which deliveries may be settled.
    pub(crate) fn limits_deliveries(&self) -> bool {
        let kinds =
            [CaveatKind::Topic, CaveatKind::TopicPrefix, CaveatKind::Delivery, CaveatKind::Namespaces];
        kinds.into_iter().any(|kind| self.known.verified.has(kind))
    }

    /// Whether a delivery with this owner was received with this token, or with one that has the same nonce and the same
    /// end. So it was received before that.
    pub(crate) fn received(&self, owner: Owner) -> bool {
        let [number, mark] = halves(owner);
        self.known.verified.delivery_mark(number) == mark
    }

    /// A token that is good for one delivery only: to settle or to extend it. It ends with this token.
    pub(crate) fn for_delivery(&self, receipt: LeaseToken) -> Result<Token, TokenError> {
        let fence = NonZeroU64::new(receipt.fence().get()).expect("fences begin at 1");
        self.attenuated_for(DeliveryId { uid: receipt.uid().as_u128(), fence })
    }

    fn attenuated_for(&self, delivery: DeliveryId) -> Result<Token, TokenError> {
        let operations = Caveat::parse("op = ack,extend,nack").expect("a caveat in its canonical form");
        self.known.token.attenuate(&operations)?.attenuate(&Caveat::Delivery(delivery))
    }

    /// Whether the token has space for the limits of a delivery, of which this is the longest.
    pub(crate) fn can_delegate(&self) -> bool {
        let longest = DeliveryId { uid: u128::MAX, fence: NonZeroU64::MAX };
        self.attenuated_for(longest).is_ok()
    }

    /// Who the token is, for the log: its name and its nonce.
    pub(crate) fn holder(&self) -> String {
        let token = &self.known.verified;
        let nonce = token.identifier().nonce;
        match token.names().next() {
            Some(name) => format!("{name} (token {nonce})"),
            None => format!("token {nonce}"),
        }
    }

    /// How many messages per second it allows, and the nonce that they count for; none if it has no rate.
    pub(super) fn rates(&self) -> Option<(Nonce, Vec<NonZeroU32>)> {
        let token = &self.known.verified;
        let rates: Vec<_> = token.rates().collect();
        (!rates.is_empty()).then(|| (token.identifier().nonce, rates))
    }

    pub(super) fn token(&self) -> &Arc<KnownToken> {
        &self.known
    }
}

/// The number of an owner, and the mark that belongs to it.
fn halves(owner: Owner) -> [u64; 2] {
    let bytes = owner.as_u128().to_be_bytes();
    let half = |from: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[from + index]));
    [half(0), half(8)]
}
