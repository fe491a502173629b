//! The context of a handler: the delivery that it handles.

use std::sync::Arc;

use bytes::Bytes;
use oncebox_core::{Attributes, Delivery, Key, LastError, Settlement, Timestamp, Trace, Uid};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::transaction_slot::TransactionSlot;
use crate::inbox::Inbox;
use crate::message::Message;
use crate::shared::Shared;
use crate::telemetry;
use crate::transaction::Transactions;

/// The delivery that a handler works on. Cheap to clone.
#[derive(Clone)]
pub struct Context {
    delivery: Arc<Delivery>,
    cancellation: CancellationToken,
    shared: Arc<Shared>,
    pub(super) slot: TransactionSlot,
}

impl Context {
    pub(super) fn new(delivery: Arc<Delivery>, cancellation: CancellationToken, shared: Arc<Shared>) -> Self {
        Self { delivery, cancellation, shared, slot: TransactionSlot::default() }
    }

    /// The name of the store.
    pub(super) fn store(&self) -> &str {
        &self.shared.name
    }

    /// The transactions of the store, if it supports them.
    pub(super) fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        self.shared.transactions.clone()
    }

    pub(super) fn ack(&self) -> Settlement {
        self.delivery.ack()
    }

    /// The tracing span that the handler runs in.
    pub(super) fn span(&self) -> Span {
        let trace_context = self.shared.settings.trace_context.as_deref();
        telemetry::handler_span(&self.shared.name, &self.delivery, trace_context)
    }

    /// The message as its sender built it.
    pub fn message(&self) -> Message {
        Message::from_delivery(&self.delivery)
    }

    /// The uid of the message.
    pub fn uid(&self) -> Uid {
        self.delivery.uid
    }

    /// The topic of the message.
    pub fn topic(&self) -> &str {
        self.delivery.content.topic.as_str()
    }

    /// The source that the message comes from.
    pub fn source(&self) -> &str {
        self.delivery.key.source.as_str()
    }

    /// The id of the message within its source. Source and id together can serve as an idempotency key for the
    /// handler's own writes.
    pub fn id(&self) -> &str {
        self.delivery.key.id.as_str()
    }

    /// The key of the message: its source and id, for example for an [`crate::Operator`].
    pub fn key(&self) -> &Key {
        &self.delivery.key
    }

    /// The payload.
    pub fn payload(&self) -> Bytes {
        self.delivery.content.payload.clone().into_bytes()
    }

    /// The attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.delivery.content.attributes
    }

    /// The correlation, causation and tenant ids.
    pub fn trace(&self) -> &Trace {
        &self.delivery.trace
    }

    /// The number of earlier deliveries that failed; 0 at first.
    pub fn attempts(&self) -> u32 {
        self.delivery.attempts
    }

    /// The number of this delivery, starting from 1.
    pub fn delivery(&self) -> u32 {
        self.delivery.deliveries
    }

    /// When the message was first accepted.
    pub fn first_seen(&self) -> Timestamp {
        self.delivery.accepted_at
    }

    /// When the key was last received.
    pub fn last_seen(&self) -> Timestamp {
        self.delivery.last_seen_at
    }

    /// Why the previous delivery failed.
    pub fn last_error(&self) -> Option<&str> {
        self.delivery.last_error.as_ref().map(LastError::as_str)
    }

    /// Completes when the handler should stop: its lease is lost, or the worker stops and the stop budget is used up.
    /// The handler itself is dropped at its next await; use this for tasks that it has spawned.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Whether the handler should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// The inbox that the message came from, to enqueue follow-up messages.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.shared.clone())
    }
}
