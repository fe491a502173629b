//! What a handler knows about the delivery in its hands.

use std::sync::Arc;

use bytes::Bytes;
use oncebox_core::{Attributes, Delivery, Key, LastError, Settlement, Timestamp, Trace, Uid};
use tokio_util::sync::CancellationToken;
use tracing::Span;

use super::transaction::Slot;
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
    pub(super) slot: Slot,
}

impl Context {
    pub(super) fn new(delivery: Arc<Delivery>, cancellation: CancellationToken, shared: Arc<Shared>) -> Self {
        Self { delivery, cancellation, shared, slot: Slot::default() }
    }

    /// The name of its store.
    pub(super) fn store(&self) -> &str {
        &self.shared.name
    }

    /// How its store takes part in transactions.
    pub(super) fn transactions(&self) -> Option<Arc<dyn Transactions>> {
        self.shared.transactions.clone()
    }

    pub(super) fn ack(&self) -> Settlement {
        self.delivery.ack()
    }

    /// The span that its handler runs in.
    pub(super) fn span(&self) -> Span {
        let trace_context = self.shared.settings.trace_context.as_deref();
        telemetry::handling(&self.shared.name, &self.delivery, trace_context)
    }

    /// The message as its sender built it.
    pub fn message(&self) -> Message {
        Message::delivered(&self.delivery)
    }

    /// The identity of the message.
    pub fn uid(&self) -> Uid {
        self.delivery.uid
    }

    /// What the message is about.
    pub fn topic(&self) -> &str {
        self.delivery.content.topic.as_str()
    }

    /// Where the message comes from.
    pub fn source(&self) -> &str {
        self.delivery.key.source.as_str()
    }

    /// What its source calls it: with the source, the key to make a handler's own writes idempotent with.
    pub fn id(&self) -> &str {
        self.delivery.key.id.as_str()
    }

    /// Source and id together: what an [`crate::Operator`] takes.
    pub fn key(&self) -> &Key {
        &self.delivery.key
    }

    /// What it carries.
    pub fn payload(&self) -> Bytes {
        self.delivery.content.payload.clone().into_bytes()
    }

    /// What stands beside the payload.
    pub fn attributes(&self) -> &Attributes {
        &self.delivery.content.attributes
    }

    /// What caused it.
    pub fn trace(&self) -> &Trace {
        &self.delivery.trace
    }

    /// Deliveries before this one that ended badly; 0 at first.
    pub fn attempts(&self) -> u32 {
        self.delivery.attempts
    }

    /// Which delivery this is, from 1.
    pub fn delivery(&self) -> u32 {
        self.delivery.deliveries
    }

    /// When the message came first.
    pub fn first_seen(&self) -> Timestamp {
        self.delivery.accepted_at
    }

    /// When it came last.
    pub fn last_seen(&self) -> Timestamp {
        self.delivery.last_seen_at
    }

    /// Why the delivery before this one failed.
    pub fn last_error(&self) -> Option<&str> {
        self.delivery.last_error.as_ref().map(LastError::as_str)
    }

    /// Ready when the handler shall stop: its lease is lost, or the worker stops and its time is up. The handler is dropped
    /// at its next await anyway; hand this to what it has spawned.
    pub async fn cancelled(&self) {
        self.cancellation.cancelled().await;
    }

    /// Whether the handler shall stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancellation.is_cancelled()
    }

    /// The inbox that the message came from, to enqueue what follows from it.
    pub fn inbox(&self) -> Inbox {
        Inbox::new(self.shared.clone())
    }
}
