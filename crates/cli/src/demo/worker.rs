//! The workers of the demo: settle what is done, get what is next, handle it as its fate says.

use std::sync::Arc;
use std::time::Duration;

use oncebox_client::wire::Code;
use oncebox_client::wire::mailbox::{Envelope, Op, Recv, SettleItem, Settled, Work};
use oncebox_client::{Client, Error};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::event::Event;
use super::letters::{VERSION, version};
use super::script::Fate;
use super::world::{TOPIC, World};

/// Short, so that the crash is seen to be survived. The usual 5 s suit real work better.
pub(super) const VISIBILITY: Duration = Duration::from_secs(1);
/// So long a worker waits for messages, in ms; also, so long it takes to go home.
const WAIT_MS: u64 = 250;

pub(super) struct Worker {
    pub(super) name: &'static str,
    pub(super) client: Client,
    pub(super) world: Arc<World>,
    pub(super) events: UnboundedSender<Event>,
}

/// A delivery that is finished, and what to tell the server.
struct Finished {
    part: usize,
    attempt: u32,
    item: SettleItem,
}

impl Worker {
    /// Works until everything is over, or until it crashes.
    pub(super) async fn work(self) -> Result<(), Error> {
        let mut finished: Vec<Finished> = Vec::new();
        while !(self.world.over.is_up() && finished.is_empty()) {
            let settle = finished.iter().map(|finished| finished.item.clone()).collect();
            let worked = self.client.work(&Work { settle, recv: self.wish() }).await?;
            for (finished, settled) in finished.drain(..).zip(worked.results) {
                self.settled(&finished, &settled);
            }
            let parts: Vec<_> = worked.messages.iter().map(|envelope| self.part(envelope)).collect();
            for (envelope, part) in worked.messages.into_iter().zip(&parts) {
                let Some(part) = *part else { continue };
                if self.world.script.parts[part].fate == Fate::Crash && !self.world.crashed.raise() {
                    self.crash(&envelope, part, parts.into_iter().flatten().collect()).await;
                    return Ok(());
                }
                finished.push(self.handle(envelope, part).await);
            }
        }
        Ok(())
    }

    fn wish(&self) -> Recv {
        Recv {
            topic: TOPIC.to_owned(),
            visibility_ms: u64::try_from(VISIBILITY.as_millis()).ok(),
            max_messages: Some(self.world.script.hands),
            wait_ms: Some(WAIT_MS),
            ..Recv::default()
        }
    }

    fn tell(&self, event: Event) {
        // Nobody listens any more when the demo is over.
        let _ = self.events.send(event);
    }

    /// Which part of the script came, if it is what was sent.
    fn part(&self, envelope: &Envelope) -> Option<usize> {
        let part = self.world.script.find(&envelope.idem_key);
        let same = |part: &usize| self.world.script.parts[*part].payload == envelope.payload_b64.0;
        if !part.as_ref().is_some_and(same) {
            self.tell(Event::Fault(format!("{} came, and is not what was sent", envelope.msg_id)));
        }
        part
    }

    async fn handle(&self, envelope: Envelope, part: usize) -> Finished {
        let (worker, attempt) = (self.name, envelope.attempt);
        self.tell(Event::Started { part, worker, attempt });
        sleep(self.world.script.parts[part].takes).await;
        let mut item = SettleItem { delivery: envelope.receipt, ..SettleItem::default() };
        match self.outcome(&envelope.payload_b64.0, part, attempt) {
            Ok(()) => {
                // Idempotent: who is there already is not added again.
                self.world.effects().insert(part);
                self.tell(Event::Handled { part, worker });
            }
            Err(error) => {
                (item.op, item.reason) = (Op::Nack, Some(error.clone()));
                self.tell(Event::Failed { part, worker, error });
            }
        }
        Finished { part, attempt, item }
    }

    /// The bug: a version that the handlers do not know yet.
    fn outcome(&self, payload: &[u8], part: usize, attempt: u32) -> Result<(), String> {
        if version(payload) != Some(VERSION) && !self.world.fixed.is_up() {
            return Err(format!("cannot read {} v2", self.world.script.parts[part].event));
        }
        match self.world.script.parts[part].fate {
            Fate::Flaky(failures) if attempt <= failures => Err("connection reset by peer".to_owned()),
            _ => Ok(()),
        }
    }

    /// Goes away in the middle of its work, as in a power cut: nothing is settled, nothing is said.
    async fn crash(&self, envelope: &Envelope, part: usize, held: Vec<usize>) {
        self.tell(Event::Started { part, worker: self.name, attempt: envelope.attempt });
        sleep(self.world.script.parts[part].takes).await;
        self.tell(Event::Crashed { worker: self.name, held });
    }

    fn settled(&self, finished: &Finished, settled: &Settled) {
        let Finished { part, attempt, item } = finished;
        let (part, worker, attempt) = (*part, self.name, *attempt);
        match (settled.ok, settled.code) {
            (true, _) if item.op == Op::Ack => self.tell(Event::Acked { part, worker, attempt }),
            (true, _) => {}
            (false, Some(Code::LeaseLost)) => self.tell(Event::Lost { part, worker }),
            (false, code) => {
                let code = code.map_or("no code", Code::as_str);
                self.tell(Event::Fault(format!("{worker} could not settle a delivery: {code}")));
            }
        }
    }
}
