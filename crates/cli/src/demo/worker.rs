//! The workers of the demo: each settles finished deliveries, receives the next messages and handles them as the
//! scenario says.

use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::mailbox::{
    MessageEnvelope, RecvRequest, SettleItem, SettleOp, SettleResponse, WorkRequest,
};
use oncebox_client::{Client, ClientError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::context::{Context, TOPIC};
use super::event::Event;
use super::scenario::{Behavior, PlannedMessage};
use super::webhook::{VERSION, version};

/// Short, so that redelivery after the crash is visible within the demo. The usual 5 s suit real work better.
pub(super) const VISIBILITY: Duration = Duration::from_secs(1);
/// How long a worker waits for messages; also the longest time that it takes to stop.
const WAIT_MS: u64 = 250;

pub(super) struct Worker {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) context: Arc<Context>,
    pub(super) events: UnboundedSender<Event>,
}

/// A finished delivery and how to settle it.
struct Finished {
    index: usize,
    attempt: u32,
    item: SettleItem,
}

impl Worker {
    /// Works until the demo is finished or this worker crashes.
    pub(super) async fn work(self) -> Result<(), ClientError> {
        let mut finished: Vec<Finished> = Vec::new();
        while !(self.context.finished.is_set() && finished.is_empty()) {
            let settle = finished.iter().map(|finished| finished.item.clone()).collect();
            let worked = self.client.work(&WorkRequest { settle, recv: self.recv_request() }).await?;
            for (finished, settled) in finished.drain(..).zip(worked.results) {
                self.settled(&finished, &settled);
            }
            let indexes: Vec<_> = worked.messages.iter().map(|envelope| self.find(envelope)).collect();
            for (envelope, index) in worked.messages.into_iter().zip(&indexes) {
                let Some(index) = *index else { continue };
                if self.planned(index).behavior == Behavior::CrashesWorker && !self.context.crashed.set() {
                    self.crash(&envelope, index, indexes.into_iter().flatten().collect()).await;
                    return Ok(());
                }
                finished.push(self.handle(envelope, index).await);
            }
        }
        Ok(())
    }

    fn recv_request(&self) -> RecvRequest {
        RecvRequest {
            topic: TOPIC.to_owned(),
            visibility_ms: u64::try_from(VISIBILITY.as_millis()).ok(),
            max_messages: Some(self.context.scenario.batch_max),
            wait_ms: Some(WAIT_MS),
            ..RecvRequest::default()
        }
    }

    fn planned(&self, index: usize) -> &PlannedMessage {
        &self.context.scenario.messages[index]
    }

    fn emit(&self, event: Event) {
        // The receiver is gone once the demo has ended.
        let _ = self.events.send(event);
    }

    /// Index of the received message in the scenario. A message that differs from what was sent is a violation.
    fn find(&self, envelope: &MessageEnvelope) -> Option<usize> {
        let index = self.context.scenario.find(&envelope.idem_key);
        let same = |index: &usize| self.planned(*index).payload == envelope.payload_b64.0;
        if !index.as_ref().is_some_and(same) {
            self.emit(Event::Violation(format!(
                "{} was received, but is not what was sent",
                envelope.msg_id
            )));
        }
        index
    }

    async fn handle(&self, envelope: MessageEnvelope, index: usize) -> Finished {
        let (worker, attempt) = (self.name, envelope.attempt);
        self.emit(Event::Started { index, worker, attempt });
        sleep(self.planned(index).handling_time).await;
        let mut item = SettleItem { delivery: envelope.receipt, ..SettleItem::default() };
        match self.outcome(&envelope.payload_b64.0, index, attempt) {
            Ok(()) => {
                // Idempotent: handling the message again does not change the set.
                self.context.effects().insert(index);
                self.emit(Event::Handled { index, worker });
            }
            Err(error) => {
                (item.op, item.reason) = (SettleOp::Nack, Some(error.clone()));
                self.emit(Event::Failed { index, worker, error });
            }
        }
        Finished { index, attempt, item }
    }

    /// Until the bug is fixed, handlers fail on payloads of an unknown version.
    fn outcome(&self, payload: &[u8], index: usize, attempt: u32) -> Result<(), String> {
        if version(payload) != Some(VERSION) && !self.context.fixed.is_set() {
            return Err(format!("cannot read {} v2", self.planned(index).event));
        }
        match self.planned(index).behavior {
            Behavior::Flaky(failures) if attempt <= failures => Err("connection reset by peer".to_owned()),
            _ => Ok(()),
        }
    }

    /// Stops in the middle of its work, as in a power failure: nothing is settled or reported.
    async fn crash(&self, envelope: &MessageEnvelope, index: usize, held: Vec<usize>) {
        self.emit(Event::Started { index, worker: self.name, attempt: envelope.attempt });
        sleep(self.planned(index).handling_time).await;
        self.emit(Event::Crashed { worker: self.name, held });
    }

    fn settled(&self, finished: &Finished, settled: &SettleResponse) {
        let Finished { index, attempt, item } = finished;
        let (index, worker, attempt) = (*index, self.name, *attempt);
        match (settled.ok, settled.code) {
            (true, _) if item.op == SettleOp::Ack => self.emit(Event::Acked { index, worker, attempt }),
            (true, _) => {}
            (false, Some(ErrorCode::LeaseLost)) => self.emit(Event::Lost { index, worker }),
            (false, code) => {
                let code = code.map_or("no code", ErrorCode::as_str);
                self.emit(Event::Violation(format!("{worker} could not settle a delivery: {code}")));
            }
        }
    }
}
