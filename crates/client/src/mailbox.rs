//! Calls on the mailbox.

use bytes::Bytes;
use oncebox_wire::mailbox::{
    Extend, Nack, Op, Received, Recv, Send, SendBatch, Sent, SentBatch, Settle, SettleItem, Settled,
    SettledBatch, Work, Worked,
};
use oncebox_wire::path;

use crate::call::{Body, Call, json};
use crate::client::Client;
use crate::error::Error;
use crate::random;
use crate::repeat::Repeat;
use crate::target;

/// # Mailbox
impl Client {
    /// Sends a message. Repeated with the same idempotency key, it is taken in once.
    ///
    /// # Errors
    /// `E_DUPLICATE` if its key belongs to a message with another payload: [`Error::msg_id`] tells which.
    pub async fn send(&self, message: &Send) -> Result<Sent, Error> {
        self.ask(Call::post(path::SEND, Repeat::Safe, json(message)?)).await
    }

    /// Sends up to 1,000 messages, in order; what became of each stands in the answer.
    pub async fn send_batch(&self, batch: &SendBatch) -> Result<SentBatch, Error> {
        self.ask(Call::post(path::SEND_BATCH, Repeat::Safe, json(batch)?)).await
    }

    /// Receives messages, waiting for the first if `wait_ms` says so. Has a `request_id` of its own if none is given.
    pub async fn recv(&self, wish: &Recv) -> Result<Received, Error> {
        self.ask(Call::post(path::RECV, Repeat::Safe, Body::Recv(named(wish)))).await
    }

    /// Acknowledges a delivery: its message was handled.
    ///
    /// # Errors
    /// `E_LEASE_LOST` if it is not held any more; `E_RECEIPT` if it was named by its message and that is not enough.
    pub async fn ack(&self, delivery: &str) -> Result<Settled, Error> {
        self.ask(Call::post(target::path(path::ACK, delivery)?, Repeat::Safe, Body::Bytes(Bytes::new())))
            .await
    }

    /// Gives a delivery back: its message comes again, or is a dead letter.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn nack(&self, delivery: &str, nack: &Nack) -> Result<Settled, Error> {
        let item = SettleItem { op: Op::Nack, delivery: delivery.to_owned(), ..SettleItem::default() };
        self.ask(Call::post(target::path(path::NACK, delivery)?, Repeat::of([&item]), json(nack)?)).await
    }

    /// Gives a delivery more time.
    ///
    /// # Errors
    /// As [`Client::ack`].
    pub async fn extend(&self, delivery: &str, extend: &Extend) -> Result<Settled, Error> {
        self.ask(Call::post(target::path(path::EXTEND, delivery)?, Repeat::Safe, json(extend)?)).await
    }

    /// Settles up to 1,000 deliveries, in order; what became of each stands in the answer.
    pub async fn settle(&self, settle: &Settle) -> Result<SettledBatch, Error> {
        self.ask(Call::post(path::SETTLE, Repeat::of(&settle.settle), json(settle)?)).await
    }

    /// One round of a worker: settles what is finished, then receives what is next. Has a `request_id` as [`Client::recv`].
    pub async fn work(&self, work: &Work) -> Result<Worked, Error> {
        let work = Work { settle: work.settle.clone(), recv: named(&work.recv) };
        self.ask(Call::post(path::WORK, Repeat::of(&work.settle), Body::Work(work))).await
    }
}

/// With an id that makes a repeat safe.
fn named(wish: &Recv) -> Recv {
    let mut wish = wish.clone();
    wish.request_id.get_or_insert_with(random::uuid);
    wish
}

#[cfg(test)]
mod tests {
    use oncebox_wire::mailbox::Recv;

    use super::named;

    #[test]
    fn a_wish_gets_a_name_of_its_own_unless_it_has_one() {
        let wish = named(&Recv::default());
        assert_eq!(named(&wish), wish);
        assert_ne!(named(&Recv::default()), wish);
    }
}
