//! Ledger users: begin, mark, release and get keys. Their leases outlive the server.

use oncebox_audit::server::{LeaseEnd, LedgerLease, ObservedBegin};
use serde_json::json;

use super::client::{Actor, TestClient, text, timestamp};
use crate::Failure;
use crate::clock::now;

/// Maximum number of leases per user.
const HELD_MAX: usize = 30;
/// Number of keys in use at a time; the range moves on.
const RANGE: u64 = 60;

#[derive(Default)]
pub(super) struct LedgerUser {
    steps: u64,
    held: Vec<LedgerLease>,
}

impl LedgerUser {
    fn begin(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let key = self.key(client);
        let processed = client.history().keys.before_call(&key);
        let body = json!({ "key": key, "owner": "campaign", "leaseSeconds": 30 });
        let response = client.post("/v1/inbox/try-begin", &body, &[])?;
        let outcome = match text(&response.body, "status")? {
            "Acquired" => {
                let (id, until) =
                    (text(&response.body, "leaseId")?.to_owned(), timestamp(&response.body, "expiresAt")?);
                let lease = LedgerLease { key: key.clone(), id, until };
                self.held.push(lease.clone());
                ObservedBegin::Acquired(lease)
            }
            "Busy" => ObservedBegin::Busy,
            "Processed" => ObservedBegin::Processed,
            other => return Err(format!("try-begin returned the status {other}").into()),
        };
        client.history().keys.after_begin(&key, processed, &outcome, now())?;
        Ok(())
    }

    /// Marks or releases the latest lease. Without a response, the next round sends the same request again.
    fn finish(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let Some(lease) = self.held.last().cloned() else { return Ok(()) };
        // The choice depends on the lease alone, to be the same after a kill: a released lease cannot be marked.
        let lease_end = if lease.id.bytes().map(u64::from).sum::<u64>() % 3 < 2 {
            LeaseEnd::MarkProcessed
        } else {
            LeaseEnd::Release
        };
        client.history().keys.before_finish(&lease.key, lease_end);
        let body = json!({ "key": lease.key, "leaseId": lease.id });
        let path = if lease_end == LeaseEnd::MarkProcessed {
            "/v1/inbox/mark-processed"
        } else {
            "/v1/inbox/release"
        };
        let result = client.post(path, &body, &[]);
        if result.is_err()
            && let Some(held) = self.held.last_mut()
            && lease_end == LeaseEnd::Release
        {
            held.until = 0;
        }
        let response = result?;
        self.held.pop();
        let status = text(&response.body, "status")?;
        let mut history = client.history();
        match lease_end {
            LeaseEnd::MarkProcessed => history.keys.after_mark(&lease, status == "Processed", now())?,
            LeaseEnd::Release => history.keys.after_release(&lease, status == "Released", now())?,
        }
        Ok(())
    }

    fn get(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        let key = self.key(client);
        let processed = client.history().keys.before_call(&key);
        let found = client.get(&format!("/v1/inbox/{key}"))?;
        client.history().keys.after_get(&key, processed, text(&found, "status")?)?;
        Ok(())
    }

    fn key(&self, client: &mut TestClient<'_>) -> String {
        format!("key-{}", self.steps / 10 + client.below(RANGE))
    }
}

impl Actor for LedgerUser {
    fn step(&mut self, client: &mut TestClient<'_>) -> Result<(), Failure> {
        self.steps += 1;
        let now = now();
        if client.below(50) == 0 {
            self.held.retain(|lease| lease.until > now);
        }
        match client.below(10) {
            0..5 if self.held.len() < HELD_MAX => self.begin(client),
            5 => self.get(client),
            _ => self.finish(client),
        }
    }
}
