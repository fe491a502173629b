//! The end: everything that is left is received and acknowledged, and compared with what was promised.

use std::collections::HashSet;
use std::time::Duration;

use oncebox_audit::server::Op;
use oncebox_audit::server::Outcome;
use serde_json::{Value, json};

use super::desk::{Desk, moment, text, topics};
use super::receive::take;
use crate::Failure;
use crate::clock::{now, pause};

/// Leases and retry times of the load are shorter than this.
const PATIENCE_MS: u64 = 60_000;

/// Drains, judges, and tells what was there.
pub(super) fn run(desk: &mut Desk<'_>) -> Result<String, Failure> {
    let until = now() + PATIENCE_MS;
    let mut drained = 0;
    loop {
        for topic in topics() {
            drained += empty(desk, topic)?;
        }
        let counts = desk.get("/v1/counts?namespace=mailbox")?;
        let open = ["ready", "waiting", "in_flight"].map(|name| counts[name].as_u64().unwrap_or(u64::MAX));
        if open == [0, 0, 0] {
            break;
        }
        if now() > until {
            return Err(format!("messages are left that do not come: {counts}").into());
        }
        pause(Duration::from_millis(50));
    }
    let dead = dead_letters(desk)?;
    let unknown = desk.book().messages.close(&dead)?;
    let processed: Vec<_> = desk.book().keys.processed().map(str::to_owned).collect();
    for key in &processed {
        let found = desk.get(&format!("/v1/inbox/{key}"))?;
        desk.book().keys.found(key, true, text(&found, "status")?)?;
    }
    let (dead, keys) = (dead.len(), processed.len());
    Ok(format!(
        "{drained} drained, {dead} dead letters, {unknown} gone by an ack without an answer, {keys} keys processed"
    ))
}

/// Receives and acknowledges until nothing is ready.
fn empty(desk: &mut Desk<'_>, topic: &str) -> Result<u64, Failure> {
    let mut drained = 0;
    loop {
        let wish = json!({ "topic": topic, "visibility_ms": 30_000, "max_messages": 256 });
        let answer = desk.post("/v1/recv", &wish, &[])?;
        let mut held = Vec::new();
        take(desk, &answer.body, &mut held)?;
        if held.is_empty() {
            return Ok(drained);
        }
        let items: Vec<_> =
            held.iter().map(|delivery| json!({ "op": "ack", "delivery": delivery.receipt })).collect();
        for delivery in &held {
            desk.book().messages.asks_settle(delivery, Op::Ack);
        }
        let answer = desk.post("/v1/settle", &json!({ "settle": items }), &[])?;
        let results = answer.body["results"].as_array().cloned().unwrap_or_default();
        for (delivery, result) in held.iter().zip(&results) {
            let outcome = if result["ok"] == true { Outcome::Counts } else { Outcome::Lost };
            desk.book().messages.settled(delivery, Op::Ack, outcome, now())?;
            drained += 1;
        }
    }
}

fn dead_letters(desk: &mut Desk<'_>) -> Result<HashSet<String>, Failure> {
    let mut dead = HashSet::new();
    let mut after = String::new();
    loop {
        let page = desk.get(&format!("/v1/dlq?limit=1000{after}"))?;
        for letter in page["messages"].as_array().into_iter().flatten() {
            // That it is one since a moment that has passed is all that can be known here.
            moment(letter, "finished_at")?;
            dead.insert(text(letter, "msg_id")?.to_owned());
        }
        let Value::String(next) = &page["next"] else { return Ok(dead) };
        after = format!("&after={next}");
    }
}
