//! Checks answers against the model, and applies them.

use super::{Model, has_content};
use crate::protocol::{Call, NewMessage, fields};
use crate::record::MessageRecord;
use crate::{Result, Violation};

impl Model {
    pub(super) fn answered(&mut self, id: u64, call: &Call, outcomes: &[String]) -> Result<()> {
        let items = match call {
            Call::Accept(messages) => messages.len(),
            Call::Work { settlements, .. } => settlements.len(),
            Call::Begin { keys, .. } => keys.len(),
            Call::Extend(extensions) => extensions.len(),
            Call::Operate(orders) => orders.len(),
            Call::Maintain => 0,
        };
        let Some((outcomes, more)) = outcomes.split_at_checked(items) else {
            return Err(Violation::new("fewer outcomes than items"));
        };
        match call {
            Call::Accept(messages) => {
                messages.iter().zip(outcomes).try_for_each(|(item, outcome)| self.accepted(id, item, outcome))
            }
            Call::Work { owner, source, settlements, count } => {
                for ((verdict, key, fence), outcome) in settlements.iter().zip(outcomes) {
                    self.settled(id, key, (verdict, *fence), outcome)?;
                }
                if more.len() > *count {
                    return Err(Violation::new("more deliveries than claimed"));
                }
                more.iter().try_for_each(|delivery| self.delivered(id, owner, source, delivery))
            }
            Call::Begin { owner, keys } => {
                keys.iter().zip(outcomes).try_for_each(|(key, outcome)| self.begun(id, owner, key, outcome))
            }
            Call::Extend(extensions) => extensions
                .iter()
                .zip(outcomes)
                .try_for_each(|((key, fence), outcome)| self.extended(id, key, *fence, outcome)),
            Call::Operate(orders) => orders
                .iter()
                .zip(outcomes)
                .try_for_each(|((action, key), outcome)| self.operated(id, action, key, outcome)),
            Call::Maintain => Ok(()),
        }
    }

    fn current(&self, key: &str) -> Option<MessageRecord> {
        self.entries.get(key).and_then(|entry| entry.current().cloned())
    }

    fn accepted(&mut self, id: u64, item: &NewMessage, outcome: &str) -> Result<()> {
        let (kind, uid) = outcome.split_once(',').unwrap_or((outcome, ""));
        match (kind, self.current(&item.key)) {
            ("new", None) if uid == item.uid => {
                self.tally.messages += 1;
                self.add_answered(&item.key, id, Some(MessageRecord::accepted(uid)), true);
                Ok(())
            }
            ("dup", Some(known)) if uid == known.uid => Ok(()),
            ("saturated", _) => Ok(()),
            (_, known) => Err(Violation::new(format!(
                "{} was accepted as {outcome}, but its state was {known:?}",
                item.key
            ))),
        }
    }

    fn settled(&mut self, id: u64, key: &str, verdict: (&str, u64), outcome: &str) -> Result<()> {
        let known = self.current(key);
        let (record, expected) = known.as_ref().map_or((None, "lost".to_owned()), |known| {
            let (record, answer) = known.settled(verdict.0, verdict.1, has_content(key));
            (Some(record), answer)
        });
        if outcome != expected {
            return Err(Violation::new(format!(
                "{key} was settled as {outcome} instead of {expected}; its state was {known:?}"
            )));
        }
        if record != known {
            self.add_answered(key, id, record, true);
        }
        Ok(())
    }

    fn delivered(&mut self, id: u64, owner: &str, source: &str, delivery: &str) -> Result<()> {
        let invalid = || Violation::new(format!("invalid delivery: {delivery}"));
        let [key, fence, until, attempts, deliveries, hash] = fields(delivery).ok_or_else(invalid)?;
        let (fence, until) = (fence.parse().map_err(|_| invalid())?, until.parse().map_err(|_| invalid())?);
        let known = self
            .current(key)
            .ok_or_else(|| Violation::new(format!("{key} was delivered, but is unknown")))?;
        let in_source = source == "*" || key.split('/').nth(1) == Some(source);
        let claimable =
            in_source && known.state == "processing" && known.lease().is_none() && known.retry != "far";
        let granted = known.granted(owner, fence, until);
        let counters_match =
            (attempts, deliveries) == (&*granted.attempts.to_string(), &*granted.deliveries.to_string());
        if !claimable || !counters_match {
            return Err(Violation::new(format!(
                "{key} was delivered as {delivery}, but its state was {known:?}"
            )));
        }
        if self.entries.get(key).is_some_and(|entry| entry.hash != hash) {
            return Err(Violation::new(format!(
                "{key} was delivered with different content than was accepted"
            )));
        }
        self.record_fence(key, fence, &known)?;
        self.add_answered(key, id, Some(granted), false);
        Ok(())
    }

    /// Records a fence. No fence is granted twice, and the fences of a message increase.
    pub(crate) fn record_fence(&mut self, key: &str, fence: u64, before: &MessageRecord) -> Result<()> {
        if !self.fences.insert(fence) {
            return Err(Violation::new(format!("fence {fence} was granted twice, this time for {key}")));
        }
        if before.grant.as_ref().is_some_and(|grant| grant.fence >= fence) {
            return Err(Violation::new(format!(
                "fence {fence} of {key} is not greater than the previous one: {before:?}"
            )));
        }
        Ok(())
    }

    fn begun(&mut self, id: u64, owner: &str, key: &str, outcome: &str) -> Result<()> {
        let known = self.current(key);
        let mismatch =
            || Violation::new(format!("{key} was begun as {outcome}, but its state was {known:?}"));
        if let Some(["acquired", uid, fence, until]) = fields::<4>(outcome) {
            let before = known.clone().unwrap_or_else(MessageRecord::unrecorded);
            if before.state != "seen" || before.lease().is_some() {
                return Err(mismatch());
            }
            let (fence, until) =
                (fence.parse().map_err(|_| mismatch())?, until.parse().map_err(|_| mismatch())?);
            self.record_fence(key, fence, &before)?;
            let granted = MessageRecord { uid: uid.to_owned(), ..before.granted(owner, fence, until) };
            self.add_answered(key, id, Some(granted), true);
            return Ok(());
        }
        let matches = match (outcome, known.as_ref()) {
            ("processed", Some(known)) => known.state == "done",
            ("busy", Some(known)) => known.lease().is_some(),
            ("invalid", Some(known)) => known.state == "dead",
            ("saturated", _) => true,
            _ => false,
        };
        if matches { Ok(()) } else { Err(mismatch()) }
    }

    fn extended(&mut self, id: u64, key: &str, fence: u64, outcome: &str) -> Result<()> {
        let known = self.current(key);
        let mismatch =
            || Violation::new(format!("{key} was extended as {outcome}, but its state was {known:?}"));
        let until = outcome.strip_prefix("extended,").and_then(|until| until.parse().ok());
        let current = known.as_ref().and_then(MessageRecord::lease).filter(|lease| lease.fence == fence);
        match (until, current) {
            (Some(until), Some(lease)) if until >= lease.until => {
                let extended = known.as_ref().map(|known| known.extended(fence, until));
                self.add_answered(key, id, extended, false);
                Ok(())
            }
            (None, None) if outcome == "lost" => Ok(()),
            _ => Err(mismatch()),
        }
    }

    fn operated(&mut self, id: u64, action: &str, key: &str, outcome: &str) -> Result<()> {
        let known = self.current(key);
        let (record, expected) = known.as_ref().map_or((None, "unknown"), |known| known.operated(action));
        if outcome != expected {
            return Err(Violation::new(format!(
                "{action} of {key} returned {outcome} instead of {expected}; its state was {known:?}"
            )));
        }
        if record != known {
            self.add_answered(key, id, record, true);
        }
        Ok(())
    }
}
