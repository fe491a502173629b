//! Mailbox calls.

use bytes::Bytes;
use oncebox_wire::mailbox::{
    ExtendRequest, NackRequest, RecvRequest, RecvResponse, SendBatchRequest, SendBatchResponse, SendRequest,
    SendResponse, SettleBatchRequest, SettleBatchResponse, SettleItem, SettleOp, SettleResponse, WorkRequest,
    WorkResponse,
};
use oncebox_wire::path;

use crate::call::{Body, Call, json};
use crate::client::Client;
use crate::error::ClientError;
use crate::random;
use crate::retry::RetryPolicy;
use crate::target;

/// # Mailbox
impl Client {
    /// Sends a message. Sending it again with the same idempotency key has no effect within the deduplication window.
    ///
    /// # Errors
    /// `E_DUPLICATE` if a message with another payload has the key: see [`ClientError::msg_id`].
    pub async fn send(&self, message: &SendRequest) -> Result<SendResponse, ClientError> {
        self.call(Call::post(path::SEND, RetryPolicy::Always, json(message)?)).await
    }

    /// Sends up to 1,000 messages, in order. The response has one result per message.
    pub async fn send_batch(&self, batch: &SendBatchRequest) -> Result<SendBatchResponse, ClientError> {
        self.call(Call::post(path::SEND_BATCH, RetryPolicy::Always, json(batch)?)).await
    }

    /// Receives messages; waits up to `wait_ms` for the first. Generates a `request_id` if there is none.
    pub async fn recv(&self, request: &RecvRequest) -> Result<RecvResponse, ClientError> {
        self.call(Call::post(path::RECV, RetryPolicy::Always, Body::Recv(with_request_id(request)))).await
    }

    /// Acknowledges a delivery: its message was processed.
    ///
    /// # Errors
    /// `E_LEASE_LOST` if the delivery is no longer leased; `E_RECEIPT` if it was identified by its message id, but the
    /// message was delivered more than once.
    pub async fn ack(&self, delivery: &str) -> Result<SettleResponse, ClientError> {
        self.call(Call::post(
            target::path(path::ACK, delivery)?,
            RetryPolicy::Always,
            Body::Bytes(Bytes::new()),
        ))
        .await
    }

    /// Negatively acknowledges a delivery: its message is retried, or becomes a dead letter.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn nack(&self, delivery: &str, nack: &NackRequest) -> Result<SettleResponse, ClientError> {
        let item = SettleItem { op: SettleOp::Nack, delivery: delivery.to_owned(), ..SettleItem::default() };
        self.call(Call::post(
            target::path(path::NACK, delivery)?,
            RetryPolicy::for_settlements([&item]),
            json(nack)?,
        ))
        .await
    }

    /// Extends the visibility timeout of a delivery.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn extend(
        &self,
        delivery: &str,
        extend: &ExtendRequest,
    ) -> Result<SettleResponse, ClientError> {
        self.call(Call::post(target::path(path::EXTEND, delivery)?, RetryPolicy::Always, json(extend)?)).await
    }

    /// Settles up to 1,000 deliveries, in order. The response has one result per delivery.
    pub async fn settle(&self, settle: &SettleBatchRequest) -> Result<SettleBatchResponse, ClientError> {
        self.call(Call::post(path::SETTLE, RetryPolicy::for_settlements(&settle.settle), json(settle)?)).await
    }

    /// Settles deliveries, then receives messages, in one round trip. Generates a `request_id` as [`Client::recv`]
    /// does.
    pub async fn work(&self, work: &WorkRequest) -> Result<WorkResponse, ClientError> {
        let work = WorkRequest { settle: work.settle.clone(), recv: with_request_id(&work.recv) };
        self.call(Call::post(path::WORK, RetryPolicy::for_settlements(&work.settle), Body::Work(work))).await
    }
}

/// The request with a `request_id`, which makes a retry safe.
fn with_request_id(request: &RecvRequest) -> RecvRequest {
    let mut request = request.clone();
    request.request_id.get_or_insert_with(random::uuid);
    request
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::RecvRequest;

    use super::with_request_id;

    #[test]
    fn a_request_id_is_generated_unless_there_is_one() {
        let request = with_request_id(&RecvRequest::default());
        assert_eq!(with_request_id(&request), request);
        assert_ne!(with_request_id(&RecvRequest::default()), request);
    }
}
