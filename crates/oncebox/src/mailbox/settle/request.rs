//! Requests to settle a delivery.

use std::time::Duration;

use oncebox_core::LastError;

use crate::mailbox::delivery_ref::DeliveryRef;

/// A request to settle a delivery.
#[derive(Debug, Clone)]
#[must_use]
pub struct Settle {
    pub(super) delivery: DeliveryRef,
    pub(super) action: SettleAction,
}

#[derive(Debug, Clone)]
pub(super) enum SettleAction {
    Ack,
    /// Without a delay, the backoff of the topic applies.
    Nack {
        delay: Option<Duration>,
        reason: Option<LastError>,
    },
    Fail {
        reason: Option<LastError>,
    },
    Extend(Duration),
}

impl Settle {
    /// Acknowledges the delivery: the message was handled and is not delivered again.
    pub fn ack(delivery: impl Into<DeliveryRef>) -> Self {
        Self { delivery: delivery.into(), action: SettleAction::Ack }
    }

    /// Rejects the delivery: the message is delivered again after the backoff of its topic, or becomes a dead letter if
    /// its attempts are used up.
    pub fn nack(delivery: impl Into<DeliveryRef>, reason: Option<&str>) -> Self {
        let reason = reason.and_then(LastError::new);
        Self { delivery: delivery.into(), action: SettleAction::Nack { delay: None, reason } }
    }

    /// Rejects the delivery like [`Settle::nack`], with this delay instead of the backoff of its topic. The attempt
    /// limit applies as usual.
    pub fn nack_after(delivery: impl Into<DeliveryRef>, delay: Duration, reason: Option<&str>) -> Self {
        let reason = reason.and_then(LastError::new);
        Self { delivery: delivery.into(), action: SettleAction::Nack { delay: Some(delay), reason } }
    }

    /// Fails the delivery for good: the message becomes a dead letter at once, with
    /// [`oncebox_core::DeadReason::Failed`].
    pub fn fail(delivery: impl Into<DeliveryRef>, reason: Option<&str>) -> Self {
        Self {
            delivery: delivery.into(),
            action: SettleAction::Fail { reason: reason.and_then(LastError::new) },
        }
    }

    /// Extends the visibility timeout: it ends this long from now. At most ten times the visibility that the message
    /// was received with.
    pub fn extend(delivery: impl Into<DeliveryRef>, visibility: Duration) -> Self {
        Self { delivery: delivery.into(), action: SettleAction::Extend(visibility) }
    }

    /// The delivery to settle.
    pub fn delivery(&self) -> DeliveryRef {
        self.delivery
    }

    /// Whether the message must be read first: the backoff depends on its topic and delivery count, and a message id
    /// alone does not identify the delivery.
    pub(super) fn needs_lookup(&self) -> bool {
        matches!(self.delivery, DeliveryRef::Message(_))
            || matches!(self.action, SettleAction::Nack { delay: None, .. })
    }
}
