//! The final drain: receives and acknowledges everything that is left, and compares it with the responses so far.

use std::collections::HashSet;
use std::time::Duration;

use oncebox_audit::server::ObservedOp;
use oncebox_audit::server::ObservedOutcome;
use serde_json::{Value, json};

use super::client::{TestClient, text, timestamp, topics};
use super::receive::record_deliveries;
use crate::Failure;
use crate::clock::{now, pause};

/// Longer than every lease and retry delay of the load.
const DRAIN_TIMEOUT_MS: u64 = 60_000;

/// Drains, checks the history, and returns a summary.
pub(super) fn run(client: &mut TestClient<'_>) -> Result<String, Failure> {
    let until = now() + DRAIN_TIMEOUT_MS;
    let mut drained = 0;
    loop {
        for topic in topics() {
            drained += drain_topic(client, topic)?;
        }
        let counts = client.get("/v1/admin/counts?namespace=mailbox")?;
        let open = ["ready", "waiting", "in_flight"].map(|name| counts[name].as_u64().unwrap_or(u64::MAX));
        if open == [0, 0, 0] {
            break;
        }
        if now() > until {
            return Err(format!("messages are left that are not delivered: {counts}").into());
        }
        pause(Duration::from_millis(50));
    }
    let dead = dead_letters(client)?;
    let unknown = client.history().messages.check_complete(&dead)?;
    let processed: Vec<_> = client.history().keys.processed().map(str::to_owned).collect();
    for key in &processed {
        let found = client.get(&format!("/v1/inbox/{key}"))?;
        client.history().keys.after_get(key, true, text(&found, "status")?)?;
    }
    let (dead, keys) = (dead.len(), processed.len());
    Ok(format!(
        "{drained} drained, {dead} dead letters, {unknown} finished by an ack without a response, {keys} keys processed"
    ))
}

/// Receives and acknowledges until nothing is ready.
fn drain_topic(client: &mut TestClient<'_>, topic: &str) -> Result<u64, Failure> {
    let mut drained = 0;
    loop {
        let request = json!({ "topic": topic, "visibility_ms": 30_000, "max_messages": 256 });
        let response = client.post("/v1/recv", &request, &[])?;
        let mut held = Vec::new();
        record_deliveries(client, &response.body, &mut held)?;
        if held.is_empty() {
            return Ok(drained);
        }
        let items: Vec<_> =
            held.iter().map(|delivery| json!({ "op": "ack", "delivery": delivery.receipt })).collect();
        for delivery in &held {
            client.history().messages.before_settle(delivery, ObservedOp::Ack);
        }
        let response = client.post("/v1/settle", &json!({ "settle": items }), &[])?;
        let results = response.body["results"].as_array().cloned().unwrap_or_default();
        for (delivery, result) in held.iter().zip(&results) {
            let outcome = if result["ok"] == true { ObservedOutcome::Applied } else { ObservedOutcome::Lost };
            client.history().messages.after_settle(delivery, ObservedOp::Ack, outcome, now())?;
            drained += 1;
        }
    }
}

fn dead_letters(client: &mut TestClient<'_>) -> Result<HashSet<String>, Failure> {
    let mut dead = HashSet::new();
    let mut after = String::new();
    loop {
        let page = client.get(&format!("/v1/dlq?limit=1000{after}"))?;
        for letter in page["messages"].as_array().into_iter().flatten() {
            // The time is not checked, only that there is one.
            timestamp(letter, "finished_at")?;
            dead.insert(text(letter, "msg_id")?.to_owned());
        }
        let Value::String(next) = &page["next"] else { return Ok(dead) };
        after = format!("&after={next}");
    }
}
