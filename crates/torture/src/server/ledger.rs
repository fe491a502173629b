//! Those who use the ledger: begin, mark, release, look; what they hold outlives the server.

use oncebox_audit::server::{Began, LedgerLease, Marks};
use serde_json::json;

use super::desk::{Desk, Role, moment, text};
use crate::Failure;
use crate::clock::now;

/// Leases that one holds, at most.
const HELD_MAX: usize = 30;
/// Keys that are asked for at a time; the range moves on.
const RANGE: u64 = 60;

#[derive(Default)]
pub(super) struct Holder {
    steps: u64,
    held: Vec<LedgerLease>,
}

impl Holder {
    fn begin(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let key = self.key(desk);
        let processed = desk.book().keys.asks(&key);
        let body = json!({ "key": key, "owner": "campaign", "leaseSeconds": 30 });
        let answer = desk.post("/v1/inbox/try-begin", &body, &[])?;
        let began = match text(&answer.body, "status")? {
            "Acquired" => {
                let (id, until) =
                    (text(&answer.body, "leaseId")?.to_owned(), moment(&answer.body, "expiresAt")?);
                let lease = LedgerLease { key: key.clone(), id, until };
                self.held.push(lease.clone());
                Began::Acquired(lease)
            }
            "Busy" => Began::Busy,
            "Processed" => Began::Processed,
            other => return Err(format!("a wish to begin was answered {other}").into()),
        };
        desk.book().keys.begun(&key, processed, &began, now())?;
        Ok(())
    }

    /// Marks or gives back. If nobody answers, the same is asked once more in the next round.
    fn end(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let Some(lease) = self.held.last().cloned() else { return Ok(()) };
        // The same choice again after a kill: a lease that was given back cannot be marked.
        let marks = if lease.id.bytes().map(u64::from).sum::<u64>() % 3 < 2 { Marks::Yes } else { Marks::No };
        desk.book().keys.asks_end(&lease.key, marks);
        let body = json!({ "key": lease.key, "leaseId": lease.id });
        let path = if marks == Marks::Yes { "/v1/inbox/mark-processed" } else { "/v1/inbox/release" };
        let answered = desk.post(path, &body, &[]);
        if answered.is_err()
            && let Some(held) = self.held.last_mut()
            && marks == Marks::No
        {
            held.until = 0;
        }
        let answer = answered?;
        self.held.pop();
        let status = text(&answer.body, "status")?;
        let mut book = desk.book();
        match marks {
            Marks::Yes => book.keys.marked(&lease, status == "Processed", now())?,
            Marks::No => book.keys.released(&lease, status == "Released", now())?,
        }
        Ok(())
    }

    fn look(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        let key = self.key(desk);
        let processed = desk.book().keys.asks(&key);
        let found = desk.get(&format!("/v1/inbox/{key}"))?;
        desk.book().keys.found(&key, processed, text(&found, "status")?)?;
        Ok(())
    }

    fn key(&self, desk: &mut Desk<'_>) -> String {
        format!("key-{}", self.steps / 10 + desk.below(RANGE))
    }
}

impl Role for Holder {
    fn step(&mut self, desk: &mut Desk<'_>) -> Result<(), Failure> {
        self.steps += 1;
        let ended = now();
        if desk.below(50) == 0 {
            self.held.retain(|lease| lease.until > ended);
        }
        match desk.below(10) {
            0..5 if self.held.len() < HELD_MAX => self.begin(desk),
            5 => self.look(desk),
            _ => self.end(desk),
        }
    }
}
