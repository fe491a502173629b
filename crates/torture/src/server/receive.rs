//! Receivers: by call, by round of work, by stream. They ack, nack, extend, and let lapse; what they hold outlives the server.

use std::sync::Mutex;

use oncebox_audit::server::{Book, Delivery, Op, Outcome};
use serde_json::{Value, json};

use super::desk::{Desk, Role, locked, moment, text};
use super::send::from_base64;
use crate::Failure;
use crate::clock::now;

/// Deliveries that one receiver holds, at most.
const HELD_MAX: usize = 60;
/// Deliveries settled in one call, at most.
const SETTLED_MAX: u64 = 12;

/// A receiver leaves a stream.
#[derive(Debug)]
struct Enough;

impl std::fmt::Display for Enough {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("enough")
    }
}

impl std::error::Error for Enough {}

/// How messages are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Recv,
    Work,
    Stream,
}

pub(super) struct Receiver {
    way: Way,
    held: Vec<Delivery>,
}

impl Receiver {
    pub(super) fn new(way: Way) -> Self {
        Self { way, held: Vec::new() }
    }

    fn wish(desk: &mut Desk<'_>) -> Value {
        let (visibility_ms, max_messages) = (250 + desk.below(1_500), 1 + desk.below(15));
        let wait_ms = if desk.below(4) == 0 { desk.below(60) } else { 0 };
        json!({ "topic": desk.any_topic(), "visibility_ms": visibility_ms, "max_messages": max_messages, "wait_ms": wait_ms })
    }

    fn receive(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let wish = Self::wish(desk);
        let answer = desk.post("/v1/recv", &wish, &[])?;
        take(desk, &answer.body, &mut self.held)
    }

    fn stream(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let mut wish = Self::wish(desk);
        wish["wait_ms"] = Value::from(30);
        // A stream goes on while messages come: leaving is the only way to stop it.
        let leave = HELD_MAX + usize::try_from(desk.below(40))?;
        let (book, held, mut count) = (desk.shared(), &mut self.held, 0);
        let outcome = desk.connection.lines("/v1/recv/stream", &wish, |line| {
            take_one(book, &serde_json::from_slice(line)?, held)?;
            count += 1;
            if count < leave { Ok(()) } else { Err(Failure::from(Enough)) }
        });
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(answer)) if answer.status == 429 => Ok(()),
            Ok(Some(answer)) => {
                Err(format!("a stream was answered {} {}", answer.status, answer.body).into())
            }
            Err(failure) if failure.is::<Enough>() => desk.reconnect(),
            Err(failure) => Err(failure),
        }
    }

    /// Chooses what to settle, says so, and gives the call's items. Those stay held until the answer is there.
    fn begin_settling(&mut self, desk: &mut Desk<'_>) -> Vec<(usize, Op, Value)> {
        let count = 1 + desk.below(SETTLED_MAX);
        let mut items: Vec<(usize, Op, Value)> = Vec::new();
        for _ in 0..count {
            let Some(held) = u64::try_from(self.held.len()).ok().filter(|held| *held > 0) else { break };
            let at = usize::try_from(desk.below(held)).unwrap_or_default();
            if items.iter().any(|(other, ..)| *other == at) {
                continue;
            }
            let (op, visibility) = (desk.below(100), 250 + desk.below(1_500));
            let delivery = &mut self.held[at];
            let receipt = delivery.receipt.as_str();
            let (op, item) = match op {
                0..70 => (Op::Ack, json!({ "op": "ack", "delivery": receipt })),
                70..85 => (Op::Nack, json!({ "op": "nack", "delivery": receipt, "reason": "on purpose" })),
                _ => {
                    (Op::Extend, json!({ "op": "extend", "delivery": receipt, "visibility_ms": visibility }))
                }
            };
            desk.book().messages.asks_settle(delivery, op);
            items.push((at, op, item));
        }
        items
    }

    /// Records what the items were answered; what is settled is not held any more.
    fn end_settling(
        &mut self,
        desk: &Desk<'_>,
        items: &[(usize, Op, Value)],
        results: &[Value],
    ) -> Result<(), Failure> {
        if items.len() != results.len() {
            return Err(format!("{} deliveries, {} results", items.len(), results.len()).into());
        }
        let mut gone = Vec::new();
        for ((at, op, _), result) in items.iter().zip(results) {
            let outcome = outcome(result)?;
            let delivery = &mut self.held[*at];
            desk.book().messages.settled(delivery, *op, outcome, now())?;
            match outcome {
                Outcome::Until(until) => delivery.until = until,
                _ => gone.push(*at),
            }
        }
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            self.held.swap_remove(at);
        }
        Ok(())
    }

    /// What is asked may have been done though nobody heard: then the delivery's end is not known.
    fn doubt(&mut self, items: &[(usize, Op, Value)]) {
        for (at, op, _) in items {
            if *op != Op::Ack {
                self.held[*at].until = 0;
            }
        }
    }

    fn settle(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let items = self.begin_settling(desk);
        let answered = match items.as_slice() {
            [] => return Ok(()),
            [(_, _, item)] => settle_one(desk, item).map(|result| vec![result]),
            _ => {
                let list: Vec<_> = items.iter().map(|(.., item)| item).collect();
                desk.post("/v1/settle", &json!({ "settle": list }), &[]).map(|answer| results(&answer.body))
            }
        };
        let results = answered.inspect_err(|_| self.doubt(&items))?;
        self.end_settling(desk, &items, &results)
    }

    fn work(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let items = self.begin_settling(desk);
        let list: Vec<_> = items.iter().map(|(.., item)| item).collect();
        let body = json!({ "settle": list, "recv": Self::wish(desk) });
        let answer = desk.post("/v1/work", &body, &[]).inspect_err(|_| self.doubt(&items))?;
        if answer.status == 429 {
            self.doubt(&items);
            return Ok(());
        }
        self.end_settling(desk, &items, &results(&answer.body))?;
        take(desk, &answer.body, &mut self.held)
    }
}

impl Role for Receiver {
    fn step(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        // What has ended long ago is settled too late now and then, and mostly forgotten.
        let (at, forget) = (now(), desk.below(10) > 0);
        self.held.retain(|delivery| !forget || delivery.until == 0 || delivery.until + 300 > at);
        match (self.way, self.held.len()) {
            (Way::Work, _) => self.work(desk),
            (Way::Recv, held) if held < HELD_MAX && desk.below(3) == 0 => self.receive(desk),
            (Way::Stream, held) if held < HELD_MAX / 2 => self.stream(desk),
            (_, 0) => self.receive(desk),
            _ => self.settle(desk),
        }
    }
}

/// One delivery by the call that is for one.
fn settle_one(desk: &mut Desk<'_>, item: &Value) -> Result<Value, Failure> {
    let path = format!("/v1/{}/{}", text(item, "op")?, text(item, "delivery")?);
    let body = match item["visibility_ms"].as_u64() {
        Some(visibility) => json!({ "visibility_ms": visibility }),
        None if item["reason"].is_string() => json!({ "reason": item["reason"] }),
        None => json!({}),
    };
    Ok(desk.post(&path, &body, &[404])?.body)
}

fn results(answer: &Value) -> Vec<Value> {
    answer["results"].as_array().cloned().unwrap_or_default()
}

fn outcome(result: &Value) -> Result<Outcome, Failure> {
    if result["ok"] == true {
        let until = moment(result, "visible_until");
        return Ok(until.map_or(Outcome::Counts, Outcome::Until));
    }
    match result["code"].as_str() {
        Some("E_LEASE_LOST") => Ok(Outcome::Lost),
        _ => Err(format!("a settlement was answered {result}").into()),
    }
}

/// Records the messages of an answer, and holds them.
pub(super) fn take(desk: &Desk<'_>, answer: &Value, held: &mut Vec<Delivery>) -> Result<(), Failure> {
    for envelope in answer["messages"].as_array().into_iter().flatten() {
        take_one(desk.shared(), envelope, held)?;
    }
    Ok(())
}

fn take_one(book: &Mutex<Book>, envelope: &Value, held: &mut Vec<Delivery>) -> Result<(), Failure> {
    let delivery = Delivery {
        key: text(envelope, "idem_key")?.to_owned(),
        msg_id: text(envelope, "msg_id")?.to_owned(),
        receipt: text(envelope, "receipt")?.to_owned(),
        attempt: envelope["attempt"]
            .as_u64()
            .and_then(|attempt| u32::try_from(attempt).ok())
            .ok_or("no attempt")?,
        until: moment(envelope, "visible_until")?,
    };
    let carried = from_base64(text(envelope, "payload_b64")?).ok_or("a payload that is not base64")?;
    // The moment is that of the record, under its lock: told later than it came, a lease may have ended.
    locked(book).messages.delivered(&delivery, &carried, now())?;
    held.push(delivery);
    Ok(())
}
