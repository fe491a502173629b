//! Receivers, by recv, work or stream. They ack, nack, extend and let leases lapse; their deliveries outlive the
//! server.

use std::sync::Mutex;

use oncebox_audit::server::{ObservedDelivery, ObservedOp, ObservedOutcome, ServerHistory};
use serde_json::{Value, json};

use super::client::{Actor, TestClient, lock, text, timestamp};
use super::send::from_base64;
use crate::Failure;
use crate::clock::now;

/// Maximum number of deliveries that a receiver holds.
const HELD_MAX: usize = 60;
/// Maximum number of deliveries settled in one call.
const SETTLED_MAX: u64 = 12;

/// Ends a stream from the receiver's side.
#[derive(Debug)]
struct StopStream;

impl std::fmt::Display for StopStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the receiver ended the stream")
    }
}

impl std::error::Error for StopStream {}

/// How messages are received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveMode {
    Recv,
    Work,
    Stream,
}

pub(super) struct Receiver {
    mode: ReceiveMode,
    held: Vec<ObservedDelivery>,
}

impl Receiver {
    pub(super) fn new(mode: ReceiveMode) -> Self {
        Self { mode, held: Vec::new() }
    }

    fn receive_request(client: &mut TestClient<'_>) -> Value {
        let (visibility_ms, max_messages) = (250 + client.below(1_500), 1 + client.below(15));
        let wait_ms = if client.below(4) == 0 { client.below(60) } else { 0 };
        json!({ "topic": client.any_topic(), "visibility_ms": visibility_ms, "max_messages": max_messages, "wait_ms": wait_ms })
    }

    fn receive(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let request = Self::receive_request(client);
        let response = client.post("/v1/recv", &request, &[])?;
        record_deliveries(client, &response.body, &mut self.held)
    }

    fn stream(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let mut request = Self::receive_request(client);
        request["wait_ms"] = Value::from(30);
        // A stream continues while messages are ready: the receiver must close it.
        let count_max = HELD_MAX + usize::try_from(client.below(40))?;
        let (history, held, mut count) = (client.shared_history(), &mut self.held, 0);
        let outcome = client.connection.lines("/v1/recv/stream", &request, |line| {
            record_delivery(history, &serde_json::from_slice(line)?, held)?;
            count += 1;
            if count < count_max { Ok(()) } else { Err(Failure::from(StopStream)) }
        });
        match outcome {
            Ok(None) => Ok(()),
            Ok(Some(response)) if response.status == 429 => Ok(()),
            Ok(Some(response)) => {
                Err(format!("a stream returned {} {}", response.status, response.body).into())
            }
            Err(failure) if failure.is::<StopStream>() => client.reconnect(),
            Err(failure) => Err(failure),
        }
    }

    /// Chooses deliveries to settle, records that, and returns the items of the call. They stay held until the
    /// response.
    fn begin_settling(&mut self, client: &mut TestClient<'_>) -> Vec<(usize, ObservedOp, Value)> {
        let count = 1 + client.below(SETTLED_MAX);
        let mut items: Vec<(usize, ObservedOp, Value)> = Vec::new();
        for _ in 0..count {
            let Some(held) = u64::try_from(self.held.len()).ok().filter(|held| *held > 0) else { break };
            let at = usize::try_from(client.below(held)).unwrap_or_default();
            if items.iter().any(|(other, ..)| *other == at) {
                continue;
            }
            let (op, visibility) = (client.below(100), 250 + client.below(1_500));
            let delivery = &mut self.held[at];
            let receipt = delivery.receipt.as_str();
            let (op, item) = match op {
                0..70 => (ObservedOp::Ack, json!({ "op": "ack", "delivery": receipt })),
                70..85 => {
                    (ObservedOp::Nack, json!({ "op": "nack", "delivery": receipt, "reason": "on purpose" }))
                }
                _ => (
                    ObservedOp::Extend,
                    json!({ "op": "extend", "delivery": receipt, "visibility_ms": visibility }),
                ),
            };
            client.history().messages.before_settle(delivery, op);
            items.push((at, op, item));
        }
        items
    }

    /// Records the results of the items, and drops the settled deliveries.
    fn end_settling(
        &mut self,
        client: &TestClient<'_>,
        items: &[(usize, ObservedOp, Value)],
        results: &[Value],
    ) -> Result<(), Failure> {
        if items.len() != results.len() {
            return Err(format!("{} deliveries, {} results", items.len(), results.len()).into());
        }
        let mut settled = Vec::new();
        for ((at, op, _), result) in items.iter().zip(results) {
            let outcome = outcome(result)?;
            let delivery = &mut self.held[*at];
            client.history().messages.after_settle(delivery, *op, outcome, now())?;
            match outcome {
                ObservedOutcome::Until(until) => delivery.until = until,
                _ => settled.push(*at),
            }
        }
        settled.sort_unstable();
        for at in settled.into_iter().rev() {
            self.held.swap_remove(at);
        }
        Ok(())
    }

    /// Without a response, a nack or an extension may have been carried out: the end of the lease is unknown.
    fn mark_uncertain(&mut self, items: &[(usize, ObservedOp, Value)]) {
        for (at, op, _) in items {
            if *op != ObservedOp::Ack {
                self.held[*at].until = 0;
            }
        }
    }

    fn settle(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let items = self.begin_settling(client);
        let result = match items.as_slice() {
            [] => return Ok(()),
            [(_, _, item)] => settle_one(client, item).map(|result| vec![result]),
            _ => {
                let list: Vec<_> = items.iter().map(|(.., item)| item).collect();
                client
                    .post("/v1/settle", &json!({ "settle": list }), &[])
                    .map(|response| results(&response.body))
            }
        };
        let results = result.inspect_err(|_| self.mark_uncertain(&items))?;
        self.end_settling(client, &items, &results)
    }

    fn work(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let items = self.begin_settling(client);
        let list: Vec<_> = items.iter().map(|(.., item)| item).collect();
        let body = json!({ "settle": list, "recv": Self::receive_request(client) });
        let response = client.post("/v1/work", &body, &[]).inspect_err(|_| self.mark_uncertain(&items))?;
        if response.status == 429 {
            self.mark_uncertain(&items);
            return Ok(());
        }
        self.end_settling(client, &items, &results(&response.body))?;
        record_deliveries(client, &response.body, &mut self.held)
    }
}

impl Actor for Receiver {
    fn step(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        // Mostly drops deliveries whose lease ended over 300 ms ago; some stay, to be settled too late.
        let (at, forget) = (now(), client.below(10) > 0);
        self.held.retain(|delivery| !forget || delivery.until == 0 || delivery.until + 300 > at);
        match (self.mode, self.held.len()) {
            (ReceiveMode::Work, _) => self.work(client),
            (ReceiveMode::Recv, held) if held < HELD_MAX && client.below(3) == 0 => self.receive(client),
            (ReceiveMode::Stream, held) if held < HELD_MAX / 2 => self.stream(client),
            (_, 0) => self.receive(client),
            _ => self.settle(client),
        }
    }
}

/// Settles a single delivery by its own endpoint.
fn settle_one(client: &mut TestClient<'_>, item: &Value) -> Result<Value, Failure> {
    let path = format!("/v1/{}/{}", text(item, "op")?, text(item, "delivery")?);
    let body = match item["visibility_ms"].as_u64() {
        Some(visibility) => json!({ "visibility_ms": visibility }),
        None if item["reason"].is_string() => json!({ "reason": item["reason"] }),
        None => json!({}),
    };
    Ok(client.post(&path, &body, &[404])?.body)
}

fn results(response: &Value) -> Vec<Value> {
    response["results"].as_array().cloned().unwrap_or_default()
}

fn outcome(result: &Value) -> Result<ObservedOutcome, Failure> {
    if result["ok"] == true {
        let until = timestamp(result, "visible_until");
        return Ok(until.map_or(ObservedOutcome::Applied, ObservedOutcome::Until));
    }
    match result["code"].as_str() {
        Some("E_LEASE_LOST") => Ok(ObservedOutcome::Lost),
        _ => Err(format!("a settlement returned {result}").into()),
    }
}

/// Records the deliveries of a response, and holds them.
pub(super) fn record_deliveries(
    client: &TestClient<'_>,
    response: &Value,
    held: &mut Vec<ObservedDelivery>,
) -> Result<(), Failure> {
    for envelope in response["messages"].as_array().into_iter().flatten() {
        record_delivery(client.shared_history(), envelope, held)?;
    }
    Ok(())
}

fn record_delivery(
    history: &Mutex<ServerHistory>,
    envelope: &Value,
    held: &mut Vec<ObservedDelivery>,
) -> Result<(), Failure> {
    let delivery = ObservedDelivery {
        key: text(envelope, "idem_key")?.to_owned(),
        msg_id: text(envelope, "msg_id")?.to_owned(),
        receipt: text(envelope, "receipt")?.to_owned(),
        attempt: envelope["attempt"]
            .as_u64()
            .and_then(|attempt| u32::try_from(attempt).ok())
            .ok_or("the delivery has no attempt")?,
        until: timestamp(envelope, "visible_until")?,
    };
    let carried = from_base64(text(envelope, "payload_b64")?).ok_or("the payload is not base64")?;
    // Take the time under the lock, when the delivery is recorded: its lease may have ended since the response.
    lock(history).messages.after_receive(&delivery, &carried, now())?;
    held.push(delivery);
    Ok(())
}
