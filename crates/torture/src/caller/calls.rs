//! The calls accept, begin, work and extend.

use std::time::Duration;

use oncebox_core::{
    Accepted, Batch, Begin, Begun, Claim, Extended, Extension, Hold, Keep, Namespace, Settled, Settlement,
    Span, Store, Topic, Topics, Verdict,
};

use super::{Caller, LEASE, OPEN_MAX, TRANSIENT_MAX};
use crate::Failure;
use crate::held::{Held, KnownMessage, TRANSIENT_SUFFIX, take};
use crate::trace;

/// A retry delay that passes at once, and one that does not pass during a campaign.
const NEAR: Duration = Duration::from_millis(1);
const FAR: Duration = Duration::from_secs(300 * 24 * 60 * 60);
/// Number of settlements kept for repeats.
const REPEATS_MAX: usize = 16;

impl Caller<'_> {
    /// Accepts one message or a batch; some repeat known keys.
    pub(super) async fn accept(&mut self) -> Result<(), Failure> {
        let count = if self.rng.below(2) == 0 { 1 } else { 2 + self.rng.below(15) };
        let mut items = Vec::new();
        for _ in 0..count {
            let known = match self.repeated() {
                Some(known) => known,
                None => {
                    let transient = self.transient < TRANSIENT_MAX && self.rng.below(20) == 0;
                    self.transient += u64::from(transient);
                    let suffix = if transient { TRANSIENT_SUFFIX } else { "" };
                    KnownMessage { key: self.new_key(Namespace::Inbox, suffix)?, uid: self.uid() }
                }
            };
            items.push(self.message(&known)?);
        }
        let listed = items.iter().map(|item| {
            let hold = if item.policy.hold.keep == Keep::Window { "transient" } else { "retained" };
            let uid = item.uid.map_or(0, oncebox_core::Uid::as_u128);
            format!(
                "{},{uid:x},{},{hold}",
                trace::key(&item.key),
                trace::hash(item.content.payload.as_bytes())
            )
        });
        let id = self.call(&format!("accept {}", listed.collect::<Vec<_>>().join(" ")));
        let outcomes = self.store.accept(&items).await?;
        let answer: Vec<String> = outcomes.iter().map(accepted).collect();
        Self::answer(id, &answer);
        self.ready += outcomes.iter().filter(|outcome| matches!(outcome, Accepted::New { .. })).count();
        Ok(())
    }

    /// Sometimes a key that was used before, with a new uid.
    fn repeated(&mut self) -> Option<KnownMessage> {
        if self.rng.below(5) > 0 {
            return None;
        }
        let mut known = match self.rng.below(4) {
            0 => self.messages.held.last().map(|held| held.known.clone()),
            1 => self.messages.dead.last().cloned(),
            2 => self.messages.waiting.last().cloned(),
            _ => self.messages.done.last().cloned(),
        }?;
        known.uid = self.uid();
        (known.has_content() && !known.is_transient()).then_some(known)
    }

    /// Begins ledger keys: new ones, free ones, and some that are leased or done.
    pub(super) async fn begin(&mut self) -> Result<(), Failure> {
        if self.messages.held.len() > OPEN_MAX {
            return Ok(());
        }
        let mut keys = Vec::new();
        for _ in 0..=self.rng.below(4) {
            let known = match self.rng.below(4) {
                0 => take(&mut self.messages.seen, &mut self.rng),
                1 => self.messages.done.last().cloned().filter(|known| !known.has_content()),
                _ => None,
            };
            keys.push(match known {
                Some(known) => known.key,
                None => self.new_key(Namespace::Ledger, "")?,
            });
        }
        let (owner, lease) = (self.owner()?, Span::lease(LEASE)?);
        let hold = Hold { window: Duration::ZERO, keep: Keep::After(Duration::from_secs(86_400)) };
        let listed: Vec<String> = keys.iter().map(trace::key).collect();
        let id = self.call(&format!("begin {:x} {}", owner.as_u128(), listed.join(" ")));
        let begins: Vec<_> = keys.into_iter().map(|key| Begin { key, owner, lease, hold }).collect();
        let outcomes = self.store.begin(&begins).await?;
        Self::answer(id, &outcomes.iter().map(begun).collect::<Vec<_>>());
        for (begin, outcome) in begins.into_iter().zip(outcomes) {
            if let Begun::Acquired { uid, lease } = outcome {
                let known = KnownMessage { key: begin.key, uid };
                self.messages.held.push(Held { known, owner, fence: lease.fence });
            }
        }
        Ok(())
    }

    /// Settles some deliveries and claims others, in one call.
    pub(super) async fn work(&mut self) -> Result<(), Failure> {
        let mut verdicts = Vec::new();
        for _ in 0..self.rng.below(8) {
            let Some(held) = take(&mut self.messages.held, &mut self.rng) else { break };
            let verdict = ["ack", "ack", "ack", "ack", "near", "near", "far", "fail", "release"];
            verdicts.push((held, verdict[usize::try_from(self.rng.below(9)).unwrap_or_default()]));
        }
        let fresh = verdicts.clone();
        if self.rng.below(5) == 0 {
            verdicts.extend(take(&mut self.settled, &mut self.rng));
        }
        let count = if self.messages.held.len() > OPEN_MAX { 0 } else { self.rng.below(9) };
        let owner = self.owner()?;
        let listed = verdicts.iter().map(|(held, verdict)| {
            format!(" {verdict},{},{}", trace::key(&held.known.key), held.fence.get())
        });
        let listed: String = listed.collect();
        let id = self.call(&format!("work {:x} {} {count}{listed}", owner.as_u128(), self.source));
        let settlements = verdicts.iter().map(settlement).collect::<Result<Vec<_>, _>>()?;
        let mut claims = Vec::new();
        if count > 0 {
            let batch = Batch::new(u32::try_from(count)?)?;
            let mut claim = Claim::new(Namespace::Inbox, owner, Span::lease(LEASE)?, batch);
            claim.topics = Topics::only([Topic::new(self.source.clone())?])?;
            claims.push(claim);
        }
        let worked = self.store.work(&settlements, &claims).await?;
        let deliveries: Vec<_> = worked.deliveries.into_iter().flatten().collect();
        let settled = worked.settled.iter().map(|outcome| trace::settled(*outcome).to_owned());
        Self::answer(id, &settled.chain(deliveries.iter().map(trace::delivery)).collect::<Vec<_>>());
        for ((held, verdict), outcome) in fresh.into_iter().zip(worked.settled) {
            self.regroup(held.clone(), verdict, outcome);
            self.settled.push((held, verdict));
        }
        self.settled.drain(..self.settled.len().saturating_sub(REPEATS_MAX));
        self.ready =
            if (deliveries.len() as u64) < count { 0 } else { self.ready.saturating_sub(deliveries.len()) };
        self.messages.held.extend(deliveries.into_iter().map(|delivery| Held {
            known: KnownMessage { key: delivery.key, uid: delivery.uid },
            owner,
            fence: delivery.lease.fence,
        }));
        Ok(())
    }

    /// Moves a settled message to its group.
    fn regroup(&mut self, held: Held, verdict: &str, outcome: Settled) {
        let known = held.known;
        match outcome {
            Settled::Done => self.messages.add_done(known),
            Settled::Dead { .. } => self.messages.dead.push(known),
            Settled::Retrying { .. } | Settled::Released if !known.has_content() => {
                self.messages.seen.push(known);
            }
            Settled::Retrying { .. } if verdict == "far" => self.messages.waiting.push(known),
            Settled::Retrying { .. } | Settled::Released => self.ready += 1,
            _ => {}
        }
    }

    pub(super) async fn extend(&mut self) -> Result<(), Failure> {
        let extensions: Vec<_> = self.messages.held.iter().rev().take(5).cloned().collect();
        if extensions.is_empty() {
            return Ok(());
        }
        let listed =
            extensions.iter().map(|held| format!(" {},{}", trace::key(&held.known.key), held.fence.get()));
        let id = self.call(&format!("extend{}", listed.collect::<String>()));
        let lease = Span::lease(LEASE)?;
        let extensions: Vec<_> = extensions
            .iter()
            .map(|held| Extension { uid: held.known.uid, owner: held.owner, fence: held.fence, lease })
            .collect();
        let answer = self.store.extend(&extensions).await?.into_iter().map(|outcome| match outcome {
            Extended::Until(until) => format!("extended,{}", until.as_millis()),
            Extended::LeaseLost => "lost".to_owned(),
            Extended::Locked => "locked".to_owned(),
        });
        Self::answer(id, &answer.collect::<Vec<_>>());
        Ok(())
    }
}

fn settlement((held, verdict): &(Held, &'static str)) -> Result<Settlement, Failure> {
    let verdict = match *verdict {
        "ack" => Verdict::Ack,
        "near" => Verdict::Abandon { delay: Span::delay(NEAR)?, error: None },
        "far" => Verdict::Abandon { delay: Span::delay(FAR)?, error: None },
        "fail" => Verdict::Fail { reason: oncebox_core::DeadReason::Failed, error: None },
        _ => Verdict::Release,
    };
    Ok(Settlement { uid: held.known.uid, owner: held.owner, fence: held.fence, verdict })
}

fn accepted(outcome: &Accepted) -> String {
    match outcome {
        Accepted::New { summary, .. } => format!("new,{:x}", summary.uid.as_u128()),
        Accepted::Duplicate { summary, .. } => format!("dup,{:x}", summary.uid.as_u128()),
        Accepted::Saturated { .. } => "saturated".to_owned(),
        _ => "unexpected".to_owned(),
    }
}

fn begun(outcome: &Begun) -> String {
    match outcome {
        Begun::Acquired { uid, lease } => {
            format!("acquired,{:x},{},{}", uid.as_u128(), lease.fence.get(), lease.until.as_millis())
        }
        Begun::Processed(_) => "processed".to_owned(),
        Begun::Busy { .. } => "busy".to_owned(),
        Begun::Invalid => "invalid".to_owned(),
        Begun::Saturated { .. } => "saturated".to_owned(),
        _ => "unexpected".to_owned(),
    }
}
