//! What an answer says about messages, and whether it fits what was answered before.

use super::{World, has_content};
use crate::line::{Call, Fresh, fields};
use crate::standing::Standing;
use crate::{Fault, Result};

impl World {
    pub(super) fn answered(&mut self, id: u64, call: &Call, outcomes: &[String]) -> Result<()> {
        let items = match call {
            Call::Accept(messages) => messages.len(),
            Call::Work { settlements, .. } => settlements.len(),
            Call::Begin { keys, .. } => keys.len(),
            Call::Extend(extensions) => extensions.len(),
            Call::Operate(orders) => orders.len(),
            Call::Upkeep => 0,
        };
        let Some((outcomes, more)) = outcomes.split_at_checked(items) else {
            return Err(Fault::new("fewer outcomes than items"));
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
                    return Err(Fault::new("more deliveries than were asked for"));
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
            Call::Upkeep => Ok(()),
        }
    }

    fn now(&self, key: &str) -> Option<Standing> {
        self.entries.get(key).and_then(|entry| entry.now().cloned())
    }

    fn accepted(&mut self, id: u64, item: &Fresh, outcome: &str) -> Result<()> {
        let (word, uid) = outcome.split_once(',').unwrap_or((outcome, ""));
        match (word, self.now(&item.key)) {
            ("new", None) if uid == item.uid => {
                self.tally.messages += 1;
                self.push(&item.key, id, Some(Standing::accepted(uid)), true);
                Ok(())
            }
            ("dup", Some(known)) if uid == known.uid => Ok(()),
            ("saturated", _) => Ok(()),
            (_, known) => {
                Err(Fault::new(format!("{} was accepted as {outcome}, but stood as {known:?}", item.key)))
            }
        }
    }

    fn settled(&mut self, id: u64, key: &str, verdict: (&str, u64), outcome: &str) -> Result<()> {
        let known = self.now(key);
        let (standing, expected) = known.as_ref().map_or((None, "lost".to_owned()), |known| {
            let (standing, answer) = known.settled(verdict.0, verdict.1, has_content(key));
            (Some(standing), answer)
        });
        if outcome != expected {
            return Err(Fault::new(format!(
                "{key} was settled as {outcome} instead of {expected}: {known:?}"
            )));
        }
        if standing != known {
            self.push(key, id, standing, true);
        }
        Ok(())
    }

    fn delivered(&mut self, id: u64, owner: &str, source: &str, delivery: &str) -> Result<()> {
        let nonsense = || Fault::new(format!("a delivery that says nothing: {delivery}"));
        let [key, fence, until, attempts, deliveries, hash] = fields(delivery).ok_or_else(nonsense)?;
        let (fence, until) = (fence.parse().map_err(|_| nonsense())?, until.parse().map_err(|_| nonsense())?);
        let known = self.now(key).ok_or_else(|| Fault::new(format!("{key} is given out, but unknown")))?;
        let wanted = source == "*" || key.split('/').nth(1) == Some(source);
        let claimable =
            wanted && known.state == "processing" && known.lease().is_none() && known.retry != "far";
        let granted = known.granted(owner, fence, until);
        let told =
            (attempts, deliveries) == (&*granted.attempts.to_string(), &*granted.deliveries.to_string());
        if !claimable || !told {
            return Err(Fault::new(format!("{key} was given out as {delivery}, but stood as {known:?}")));
        }
        if self.entries.get(key).is_some_and(|entry| entry.hash != hash) {
            return Err(Fault::new(format!("{key} was given out with other content than it came with")));
        }
        self.fenced(key, fence, &known)?;
        self.push(key, id, Some(granted), false);
        Ok(())
    }

    /// Notes a fence; none is ever granted twice, and those of a message grow.
    pub(crate) fn fenced(&mut self, key: &str, fence: u64, before: &Standing) -> Result<()> {
        if !self.fences.insert(fence) {
            return Err(Fault::new(format!("fence {fence} was granted twice, this time for {key}")));
        }
        if before.grant.as_ref().is_some_and(|grant| grant.fence >= fence) {
            return Err(Fault::new(format!(
                "fence {fence} of {key} is not above the one before: {before:?}"
            )));
        }
        Ok(())
    }

    fn begun(&mut self, id: u64, owner: &str, key: &str, outcome: &str) -> Result<()> {
        let known = self.now(key);
        let wrong = || Fault::new(format!("{key} was begun as {outcome}, but stood as {known:?}"));
        if let Some(["acquired", uid, fence, until]) = fields::<4>(outcome) {
            let before = known.clone().unwrap_or_else(Standing::unseen);
            if before.state != "seen" || before.lease().is_some() {
                return Err(wrong());
            }
            let (fence, until) = (fence.parse().map_err(|_| wrong())?, until.parse().map_err(|_| wrong())?);
            self.fenced(key, fence, &before)?;
            let granted = Standing { uid: uid.to_owned(), ..before.granted(owner, fence, until) };
            self.push(key, id, Some(granted), true);
            return Ok(());
        }
        let fits = match (outcome, known.as_ref()) {
            ("processed", Some(known)) => known.state == "done",
            ("busy", Some(known)) => known.lease().is_some(),
            ("invalid", Some(known)) => known.state == "dead",
            ("saturated", _) => true,
            _ => false,
        };
        if fits { Ok(()) } else { Err(wrong()) }
    }

    fn extended(&mut self, id: u64, key: &str, fence: u64, outcome: &str) -> Result<()> {
        let known = self.now(key);
        let wrong = || Fault::new(format!("{key} was extended as {outcome}, but stood as {known:?}"));
        let until = outcome.strip_prefix("extended,").and_then(|until| until.parse().ok());
        let current = known.as_ref().and_then(Standing::lease).filter(|lease| lease.fence == fence);
        match (until, current) {
            (Some(until), Some(lease)) if until >= lease.until => {
                let extended = known.as_ref().map(|known| known.extended(fence, until));
                self.push(key, id, extended, false);
                Ok(())
            }
            (None, None) if outcome == "lost" => Ok(()),
            _ => Err(wrong()),
        }
    }

    fn operated(&mut self, id: u64, action: &str, key: &str, outcome: &str) -> Result<()> {
        let known = self.now(key);
        let (standing, expected) = known.as_ref().map_or((None, "unknown"), |known| known.operated(action));
        if outcome != expected {
            return Err(Fault::new(format!(
                "{action} of {key} answered {outcome} instead of {expected}: {known:?}"
            )));
        }
        if standing != known {
            self.push(key, id, standing, true);
        }
        Ok(())
    }
}
