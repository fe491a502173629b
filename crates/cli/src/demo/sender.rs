//! The senders of the demo: each makes the calls of one source, in order, each at its time.

use std::sync::Arc;

use oncebox_client::wire::Code;
use oncebox_client::wire::mailbox::Send;
use oncebox_client::{Client, Error};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{Instant, sleep_until};

use super::event::{Answer, Event};
use super::script::{Arrival, Part};
use super::world::{TOPIC, World};

pub(super) struct Sender {
    pub(super) source: &'static str,
    pub(super) client: Client,
    pub(super) world: Arc<World>,
    pub(super) events: UnboundedSender<Event>,
}

impl Sender {
    /// Makes all calls. While there is no server, the client repeats the one that is not answered.
    pub(super) async fn send(self, started: Instant) -> Result<(), Error> {
        for arrival in &self.world.script.arrivals {
            let part = &self.world.script.parts[arrival.part];
            if part.source != self.source {
                continue;
            }
            sleep_until(started + arrival.at).await;
            let answer = match self.client.send(&message(part, arrival)).await {
                Ok(sent) => Answer::Taken { msg_id: sent.msg_id, duplicate: sent.duplicate },
                Err(error) => match (error.code(), error.msg_id()) {
                    (Some(Code::Duplicate), Some(msg_id)) => Answer::Refused { msg_id: msg_id.to_owned() },
                    _ => return Err(error),
                },
            };
            // Nobody listens any more when the demo is over.
            let _ = self.events.send(Event::Arrived { part: arrival.part, answer });
        }
        Ok(())
    }
}

fn message(part: &Part, arrival: &Arrival) -> Send {
    let attrs = [("source", part.source), ("event", part.event)];
    Send {
        topic: TOPIC.to_owned(),
        idem_key: part.id.clone(),
        payload_b64: arrival.payload.clone().into(),
        attrs: attrs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..Send::default()
    }
}
