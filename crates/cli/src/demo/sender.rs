//! The senders of the demo: each makes the calls of one source in order, at their scheduled times.

use std::sync::Arc;

use oncebox_client::wire::ErrorCode;
use oncebox_client::wire::mailbox::SendRequest;
use oncebox_client::{Client, ClientError};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::context::{Context, TOPIC};
use super::event::{Answer, Event};
use super::scenario::{Call, PlannedMessage};

pub(super) struct Sender {
    pub(super) source: &'static str,
    pub(super) client: Client,
    pub(super) context: Arc<Context>,
    pub(super) events: UnboundedSender<Event>,
}

impl Sender {
    /// Makes all calls. While the server is down, the client retries the pending call.
    pub(super) async fn send(self, started: Instant) -> Result<(), ClientError> {
        for call in &self.context.scenario.calls {
            let planned = &self.context.scenario.messages[call.index];
            if planned.source != self.source {
                continue;
            }
            sleep_until(started + call.at).await;
            let answer = match self.client.send(&send_request(planned, call)).await {
                Ok(sent) => Answer::Accepted { msg_id: sent.msg_id, duplicate: sent.duplicate },
                Err(error) => match (error.code(), error.msg_id()) {
                    (Some(ErrorCode::Duplicate), Some(msg_id)) => {
                        Answer::Refused { msg_id: msg_id.to_owned() }
                    }
                    _ => return Err(error),
                },
            };
            // The receiver is gone once the demo has ended.
            let _ = self.events.send(Event::Sent { index: call.index, answer });
        }
        Ok(())
    }
}

fn send_request(planned: &PlannedMessage, call: &Call) -> SendRequest {
    let attrs = [("source", planned.source), ("event", planned.event)];
    SendRequest {
        topic: TOPIC.to_owned(),
        idem_key: planned.id.clone(),
        payload_b64: call.payload.clone().into(),
        attrs: attrs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..SendRequest::default()
    }
}
